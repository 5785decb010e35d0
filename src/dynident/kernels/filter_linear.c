/* Covariance through a linear step and through a linear measurement. FORM chooses how it is kept:
     0 plain: the symmetric matrix, P - k s k'
     1 Joseph: the symmetric matrix, (I - k h') P (I - k h')' + r k k', which rounding cannot make negative
     2 square root: a matrix L with L L' = P; steps by Householder reflections, measurements by Potter's formula
   KEPT is how far apart its rows are. `uses` says which entries of a row h of the outputs' derivative can differ from 0. */

#if FORM == 2

#define KEPT N

static void mirror(double *L) { (void)L; } /* L L' is symmetric whatever L */

/* L <- a lower triangle with L L' = A L L' A' + diag(q), A = [F; 0 I] */
static void through_step(const double *restrict F, double *restrict L, const double *q) {
  double B[N * N], T[N * N]; /* rows of [A L]' are joined to the triangle of sqrt(q) */
  int i, j, k, l;
  for (j = 0; j < N; j++)
    for (i = 0; i < N; i++) {
      double sum = i < NX ? 0 : L[i * N + j];
      if (i < NX) for (l = 0; l < N; l++) sum += F[i * W + l] * L[l * N + j];
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

/* h' P h; `work` is for those who follow */
static double variance_along(const double *L, const double *h, const char *uses, double *work) {
  double s = 0;
  int i, j;
  for (j = 0; j < N; j++) {
    work[j] = 0;
    for (i = 0; i < N; i++) if (uses[i]) work[j] += L[i * N + j] * h[i];
    s += work[j] * work[j];
  }
  return s;
}

static void absorb(double *x, double *L, double along, double innovation, double r, double inverse,
                   const double *work) {
  const double share = 1 / (1 + sqrt(r * inverse));
  int i, j;
  (void)along;
  for (i = 0; i < N; i++) {
    double gain = 0;
    for (j = 0; j < N; j++) gain += L[i * N + j] * work[j];
    gain *= inverse;
    x[i] += gain * innovation;
    for (j = 0; j < N; j++) L[i * N + j] -= share * gain * work[j];
  }
}

/* P h times a factor, from what variance_along left in `work` */
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

#define KEPT W

/* Products below are symmetric but for rounding; once per sample they are made so to the last digit. It is done where
   long scalar code follows: a matrix read right after single numbers were written into it has to wait for them. */
MELT void mirror(double *P) {
  int i, j;
  for (i = 1; i < N; i++)
    for (j = 0; j < i; j++) P[i * W + j] = P[j * W + i];
}

#define TURNED WHOLE(NX, 4)
#define ENTRY(i) ((i) < NX ? F[(i) * W + l] : 0.0)

/* P <- A P A' + diag(q), A = [F; 0 I] */
MELT void through_step(const double *restrict F, double *restrict P, const double *q) {
  static const double unit[N][W] = UNIT_ROWS, still[W] = STILL; /* 1 on the diagonal; 1 where a parameter stands */
  double M[NX * W], T[N * TURNED]; /* F P, and F' */
  int i, c, l;
  for (l = 0; l < N; l++)
    for (i = 0; i < NX; i += 4) FOUR(T + l * TURNED + i, ENTRY(i), ENTRY(i + 1), ENTRY(i + 2), ENTRY(i + 3));
  for (i = 0; i < NX; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_lane sum = F[i * W] * AT(P + c);
      for (l = 1; l < N; l++) sum += F[i * W + l] * AT(P + l * W + c);
      AT(M + i * W + c) = sum;
    }
  for (i = 0; i < N; i++) {
    const double *m = i < NX ? M + i * W : P + i * W;
    dyn_lane row[W / LANE];
    for (c = 0; c < N; c += LANE) {
      dyn_lane sum = q[i] * SEEN_AT(unit[i] + c) + SEEN_AT(still + c) * SEEN_AT(m + c);
      if (c < NX) for (l = 0; l < N; l++) sum += m[l] * AT(T + l * TURNED + c);
      row[c / LANE] = sum;
    }
    for (c = 0; c < N; c += LANE) AT(P + i * W + c) = row[c / LANE];
  }
}

/* h' P h; `work` becomes P h */
MELT double variance_along(const double *P, const double *h, const char *uses, double *work) {
  double along = 0;
  int c, j;
  for (c = 0; c < N; c += LANE) {
    dyn_lane sum = NOTHING;
    for (j = 0; j < N; j++) if (uses[j]) sum += h[j] * SEEN_AT(P + j * W + c);
    AT(work + c) = sum;
  }
  for (j = 0; j < N; j++) if (uses[j]) along += h[j] * work[j];
  return along;
}

/* One measurement; `along` and `work` are what variance_along found, `inverse` is 1 / (along + r). */
MELT void absorb(double *restrict x, double *restrict P, double along, double innovation, double r, double inverse,
                   const double *restrict work) {
  double gain[W], left[W]; /* left: r k - (I - k h') P h, what Joseph's formula adds to the plain one, times k' */
  int i, c;
  for (c = 0; c < N; c += LANE) {
    const dyn_lane k = inverse * SEEN_AT(work + c);
    AT(gain + c) = k;
    AT(left + c) = r * k - (SEEN_AT(work + c) - along * k);
  }
  for (i = 0; i < N; i++) x[i] += gain[i] * innovation;
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_lane row = AT(P + i * W + c) - gain[i] * SEEN_AT(work + c);
#if FORM == 1
      row += left[i] * AT(gain + c);
#endif
      AT(P + i * W + c) = row;
    }
}

/* P h times a factor, from what variance_along left in `work` */
static void gain_of(const double *P, const double *work, double factor, double *gain) {
  int i;
  (void)P;
  for (i = 0; i < N; i++) gain[i] = factor * work[i];
}

static void covariance_of(const double *kept, double *P) {
  int i;
  for (i = 0; i < N; i++) memcpy(P + i * N, kept + i * W, sizeof(double) * N);
}

static int variances_of(const double *P, double *variance) {
  int i, positive = 1;
  for (i = 0; i < N; i++) {
    variance[i] = P[i * W + i];
    if (variance[i] < 0) positive = 0;
  }
  return positive;
}

#endif

/* All measurements of one sample, one after another; they are linear in x around `at`:
     y = seen + H (x - at) + error.  `judge` says that used, whitened, nis and loglik are to be filled in. */
MELT void take_measurements(double *x, double *P, const double *at, const double *seen, const double *H,
                              const double *y, const double *r, double gate, int judge, dyn_sample *out,
                              dyn_link *link) {
  static const char seen_uses[SIZE(NY)][N] = SEEN_USES;
  double work[W], volume = 1;
  int i, j, count = 0;
  if (judge) out->nis = 0;
  for (j = 0; j < NY; j++) {
    const double *h = H + j * N;
    const char *uses = seen_uses[j];
    double innovation = y[j] - seen[j], along, s, inverse;
    if (judge) { out->used[j] = 0; out->whitened[j] = NAN; }
    if (link) { memset(link->h[j], 0, sizeof link->h[j]); memset(link->c[j], 0, sizeof link->c[j]); link->e[j] = 0; }
    if (!isfinite(y[j])) continue;
    for (i = 0; i < N; i++) if (uses[i]) innovation -= h[i] * (x[i] - at[i]);
    along = variance_along(P, h, uses, work);
    s = along + r[j];
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
    absorb(x, P, along, innovation, r[j], inverse, work);
  }
  mirror(P);
  if (judge) out->loglik = count ? -0.5 * (log(volume) + out->nis) : 0;
}
