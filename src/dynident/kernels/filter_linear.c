/* Covariance through a linear step and through a linear measurement. FORM chooses how it is kept:
     0 plain: the symmetric matrix, P - k s k'
     1 Joseph: the symmetric matrix, (I - k h') P (I - k h')' + r k k', which rounding cannot make negative
     2 square root: a matrix L with L L' = P; steps by Householder reflections, measurements by Potter's formula */

#if FORM == 2

static void mirror(double *L) { (void)L; } /* L L' is symmetric whatever L */

/* L <- a lower triangle with L L' = A L L' A' + diag(q), A = [F; 0 I] */
static void through_step(const double *restrict F, double *restrict L, const double *q) {
  double B[N * N], T[N * N]; /* rows of [A L]' are joined to the triangle of sqrt(q) */
  int i, j, k, l;
  for (j = 0; j < N; j++)
    for (i = 0; i < N; i++) {
      double sum = i < NX ? 0 : L[i * N + j];
      if (i < NX) for (l = 0; l < N; l++) sum += F[i + NX * l] * L[l * N + j];
      B[j * N + i] = sum;
      T[j * N + i] = i == j ? sqrt(q[j]) : 0;
    }
  for (j = 0; j < N; j++) {
    double below = 0, head = T[j * N + j], norm, v, f, dot[N];
    for (k = 0; k < N; k++) below += B[k * N + j] * B[k * N + j];
    if (below == 0) continue;
    norm = sqrt(head * head + below);
    if (head > 0) norm = -norm;
    v = head - norm;
    f = 2 / (v * v + below);
    for (i = j; i < N; i++) {
      dot[i] = v * T[j * N + i];
      for (k = 0; k < N; k++) dot[i] += B[k * N + j] * B[k * N + i];
      dot[i] *= f;
    }
    for (i = j; i < N; i++) T[j * N + i] -= v * dot[i];
    for (k = 0; k < N; k++) {
      const double b = B[k * N + j];
      for (i = j; i < N; i++) B[k * N + i] -= b * dot[i];
    }
  }
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) L[i * N + j] = T[j * N + i];
}

static double innovation_variance(const double *L, const double *h, double r, double *work) {
  double s = r;
  int i, j;
  for (j = 0; j < N; j++) {
    work[j] = 0;
    for (i = 0; i < N; i++) work[j] += L[i * N + j] * h[i];
    s += work[j] * work[j];
  }
  return s;
}

static void absorb(double *x, double *L, const double *h, double innovation, double r, double inverse,
                   const double *work) {
  const double share = 1 / (1 + sqrt(r * inverse));
  int i, j;
  (void)h;
  for (i = 0; i < N; i++) {
    double gain = 0;
    for (j = 0; j < N; j++) gain += L[i * N + j] * work[j];
    gain *= inverse;
    x[i] += gain * innovation;
    for (j = 0; j < N; j++) L[i * N + j] -= share * gain * work[j];
  }
}

/* P h times a factor, from what innovation_variance left in `work` */
static void gain_of(const double *L, const double *work, double factor, double *gain) {
  int i, j;
  for (i = 0; i < N; i++) {
    gain[i] = 0;
    for (j = 0; j < N; j++) gain[i] += L[i * N + j] * work[j];
    gain[i] *= factor;
  }
}

static void covariance_of(const double *L, double *P) {
  int i, j, k;
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      P[i * N + j] = 0;
      for (k = 0; k < N; k++) P[i * N + j] += L[i * N + k] * L[j * N + k];
    }
}

static int variances_of(const double *L, double *variance) {
  int i, k;
  for (i = 0; i < N; i++) {
    variance[i] = 0;
    for (k = 0; k < N; k++) variance[i] += L[i * N + k] * L[i * N + k];
  }
  return 1;
}

#else

/* Products below are symmetric but for rounding; once per sample they are made so to the last digit. It is done where
   long scalar code follows: a matrix read right after single numbers were written into it has to wait for them. */
static void mirror(double *P) {
  int i, j;
  for (i = 1; i < N; i++)
    for (j = 0; j < i; j++) P[i * N + j] = P[j * N + i];
}

/* P <- A P A' + diag(q), A = [F; 0 I] */
static void through_step(const double *restrict F, double *restrict P, const double *q) {
  double M[N * N]; /* A P */
  int i, j, l;
  for (i = 0; i < NX; i++) {
    double *restrict row = M + i * N;
    for (j = 0; j < N; j++) row[j] = 0;
    for (l = 0; l < N; l++) {
      const double f = F[i + NX * l];
      for (j = 0; j < N; j++) row[j] += f * P[l * N + j];
    }
  }
  for (i = NX * N; i < N * N; i++) M[i] = P[i];
  for (i = 0; i < N; i++) {
    double row[NX];
    for (j = 0; j < NX; j++) row[j] = 0;
    for (l = 0; l < N; l++) {
      const double m = M[i * N + l];
      for (j = 0; j < NX; j++) row[j] += m * F[j + NX * l];
    }
    for (j = 0; j < NX; j++) P[i * N + j] = row[j];
    for (j = NX; j < N; j++) P[i * N + j] = M[i * N + j];
  }
  for (i = 0; i < N; i++) P[i * N + i] += q[i];
}

static double innovation_variance(const double *P, const double *h, double r, double *work) {
  double s = r;
  int i, j;
  for (i = 0; i < N; i++) work[i] = 0;
  for (j = 0; j < N; j++) {
    const double b = h[j];
    if (b == 0) continue;
    for (i = 0; i < N; i++) work[i] += b * P[j * N + i];
  }
  for (j = 0; j < N; j++) s += h[j] * work[j];
  return s;
}

static void absorb(double *restrict x, double *restrict P, const double *restrict h, double innovation, double r,
                   double inverse, const double *restrict work) {
  double gain[N];
  int i, j;
  for (i = 0; i < N; i++) {
    gain[i] = work[i] * inverse;
    x[i] += gain[i] * innovation;
  }
#if FORM == 1
  {
    double left[N]; /* r k - (I - k h') P h */
    for (i = 0; i < N; i++)
      for (j = 0; j < N; j++) P[i * N + j] -= gain[i] * work[j];
    for (i = 0; i < N; i++) left[i] = r * gain[i];
    for (j = 0; j < N; j++) {
      const double b = h[j];
      if (b == 0) continue;
      for (i = 0; i < N; i++) left[i] -= b * P[i * N + j];
    }
    for (i = 0; i < N; i++)
      for (j = 0; j < N; j++) P[i * N + j] += left[i] * gain[j];
  }
#else
  (void)h; (void)r;
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) P[i * N + j] -= gain[i] * work[j];
#endif
}

/* P h times a factor, from what innovation_variance left in `work` */
static void gain_of(const double *P, const double *work, double factor, double *gain) {
  int i;
  (void)P;
  for (i = 0; i < N; i++) gain[i] = factor * work[i];
}

static void covariance_of(const double *kept, double *P) { memcpy(P, kept, sizeof(double) * N * N); }

static int variances_of(const double *P, double *variance) {
  int i, positive = 1;
  for (i = 0; i < N; i++) {
    variance[i] = P[i * N + i];
    if (variance[i] < 0) positive = 0;
  }
  return positive;
}

#endif

/* All measurements of one sample, one after another; they are linear in x around `at`:
     y = seen + H (x - at) + error.  `judge` says that used, whitened, nis and loglik are to be filled in. */
static void take_measurements(double *x, double *P, const double *at, const double *seen, const double *H,
                              const double *y, const double *r, double gate, int judge, dyn_sample *out,
                              dyn_link *link) {
  double work[N], volume = 1;
  int i, j, count = 0;
  if (judge) out->nis = 0;
  for (j = 0; j < NY; j++) {
    const double *h = H + j * N;
    double innovation = y[j] - seen[j], s, inverse;
    if (judge) { out->used[j] = 0; out->whitened[j] = NAN; }
    if (link) { memset(link->h[j], 0, sizeof link->h[j]); memset(link->c[j], 0, sizeof link->c[j]); link->e[j] = 0; }
    if (!isfinite(y[j])) continue;
    for (i = 0; i < N; i++) innovation -= h[i] * (x[i] - at[i]);
    s = innovation_variance(P, h, r[j], work);
    inverse = 1 / s;
    if (judge) {
      out->used[j] = gate > 0 && innovation * innovation > gate * gate * s ? 2 : 1;
      if (out->used[j] == 1) {
        out->whitened[j] = innovation * sqrt(inverse);
        out->nis += innovation * innovation * inverse;
        volume *= TWO_PI * s;
        count++;
      }
    }
    if (out->used[j] != 1) continue;
    if (link) {
      const double root = sqrt(s);
      gain_of(P, work, 1 / root, link->c[j]);
      for (i = 0; i < N; i++) link->h[j][i] = h[i] / root;
      link->e[j] = innovation / root;
    }
    absorb(x, P, h, innovation, r[j], inverse, work);
  }
  mirror(P);
  if (judge) out->loglik = count ? -0.5 * (log(volume) + out->nis) : 0;
}
