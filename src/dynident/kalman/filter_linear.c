/* Covariance through a linear step and through a linear measurement. FORM chooses how it is kept:
     0 plain: the symmetric matrix, P - k s k'
     1 Joseph form: the symmetric matrix, (I - k h') P (I - k h')' + r k k', which rounding cannot make negative
     2 square-root filter: a matrix L with L L' = P; steps by Householder reflections, measurements by Potter's formula
   ROW_STRIDE is how far apart its rows are. `pattern` says which entries of a row h of the outputs' derivative can
   differ from 0. */

#if FORM == 2

#define ROW_STRIDE N

static void symmetrize(double *L) { (void)L; } /* L L' is symmetric whatever L */

/* L <- a lower triangle with L L' = A L L' A' + diag(q), A = [F; 0 I] */
static void predict_covariance(const double *restrict F, double *restrict L, const double *q) {
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
static double predicted_variance(const double *L, const double *h, const char *pattern, double *work) {
  double s = 0;
  int i, j;
  for (j = 0; j < N; j++) {
    work[j] = 0;
    for (i = 0; i < N; i++) if (pattern[i]) work[j] += L[i * N + j] * h[i];
    s += work[j] * work[j];
  }
  return s;
}

static void update_scalar(double *x, double *L, double along, double innovation, double r, double inverse,
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

/* P h times a factor, from what predicted_variance left in `work` */
static void kalman_gain(const double *L, const double *work, double factor, double *gain) {
  int i, j;
  for (i = 0; i < N; i++) {
    gain[i] = 0;
    for (j = 0; j < N; j++) gain[i] += L[i * N + j] * work[j];
    gain[i] *= factor;
  }
}

static void full_covariance(const double *L, double *P) {
  int i, j, k;
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      P[i * N + j] = 0;
      for (k = 0; k < N; k++) P[i * N + j] += L[i * N + k] * L[j * N + k];
    }
}

static int read_variances(const double *L, double *variance) {
  int i, k;
  for (i = 0; i < N; i++) {
    variance[i] = 0;
    for (k = 0; k < N; k++) variance[i] += L[i * N + k] * L[i * N + k];
  }
  return 1;
}

#else

#define ROW_STRIDE W

/* Products below are symmetric but for rounding; once per sample they are made so to the last digit. It is done where
   long scalar code follows: a matrix read right after single numbers were written into it has to wait for them. */
INLINE void symmetrize(double *P) {
  int i, j;
  for (i = 1; i < N; i++)
    for (j = 0; j < i; j++) P[i * W + j] = P[j * W + i];
}

#define NX_PADDED ROUND_UP(NX, 4)
#define ENTRY(i) ((i) < NX ? F[(i) * W + l] : 0.0)

/* P <- A P A' + diag(q), A = [F; 0 I] */
INLINE void predict_covariance(const double *restrict F, double *restrict P, const double *q) {
  static const double unit[N][W] = IDENTITY_ROWS; /* 1 on the diagonal */
  static const double still[W] = CONSTANT_ENTRIES; /* 1 where a parameter stands */
  double M[NX * W], T[N * NX_PADDED]; /* F P, and F' */
  int i, c, l;
  for (l = 0; l < N; l++)
    for (i = 0; i < NX; i += 4) STORE4(T + l * NX_PADDED + i, ENTRY(i), ENTRY(i + 1), ENTRY(i + 2), ENTRY(i + 3));
  for (i = 0; i < NX; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_vector sum = F[i * W] * VEC(P + c);
      for (l = 1; l < N; l++) sum += F[i * W + l] * VEC(P + l * W + c);
      VEC(M + i * W + c) = sum;
    }
  for (i = 0; i < N; i++) {
    const double *m = i < NX ? M + i * W : P + i * W;
    dyn_vector row[W / LANE];
    for (c = 0; c < N; c += LANE) {
      dyn_vector sum = q[i] * CONST_VEC(unit[i] + c) + CONST_VEC(still + c) * CONST_VEC(m + c);
      if (c < NX) for (l = 0; l < N; l++) sum += m[l] * VEC(T + l * NX_PADDED + c);
      row[c / LANE] = sum;
    }
    for (c = 0; c < N; c += LANE) VEC(P + i * W + c) = row[c / LANE];
  }
}

/* h' P h; `work` becomes P h */
INLINE double predicted_variance(const double *P, const double *h, const char *pattern, double *work) {
  double along = 0;
  int c, j;
  for (c = 0; c < N; c += LANE) {
    dyn_vector sum = ZERO_VEC;
    for (j = 0; j < N; j++) if (pattern[j]) sum += h[j] * CONST_VEC(P + j * W + c);
    VEC(work + c) = sum;
  }
  for (j = 0; j < N; j++) if (pattern[j]) along += h[j] * work[j];
  return along;
}

/* One measurement; `along` and `work` are what predicted_variance found, `inverse` is 1 / (along + r). */
INLINE void update_scalar(double *restrict x, double *restrict P, double along, double innovation, double r,
                          double inverse, const double *restrict work) {
  double gain[W], left[W]; /* left: r k - (I - k h') P h, what Joseph's formula adds to the plain one, times k' */
  int i, c;
  for (c = 0; c < N; c += LANE) {
    const dyn_vector k = inverse * CONST_VEC(work + c);
    VEC(gain + c) = k;
    VEC(left + c) = r * k - (CONST_VEC(work + c) - along * k);
  }
  for (i = 0; i < N; i++) x[i] += gain[i] * innovation;
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_vector row = VEC(P + i * W + c) - gain[i] * CONST_VEC(work + c);
#if FORM == 1
      row += left[i] * VEC(gain + c);
#endif
      VEC(P + i * W + c) = row;
    }
}

/* P h times a factor, from what predicted_variance left in `work` */
static void kalman_gain(const double *P, const double *work, double factor, double *gain) {
  int i;
  (void)P;
  for (i = 0; i < N; i++) gain[i] = factor * work[i];
}

static void full_covariance(const double *kept, double *P) {
  int i;
  for (i = 0; i < N; i++) memcpy(P + i * N, kept + i * W, sizeof(double) * N);
}

static int read_variances(const double *P, double *variance) {
  int i, positive = 1;
  for (i = 0; i < N; i++) {
    variance[i] = P[i * W + i];
    if (variance[i] < 0) positive = 0;
  }
  return positive;
}

#endif

/* All measurements of one sample, one after another; they are linear in x around `at`:
     y = seen + H (x - at) + error.  `gating` says that used, whitened, nis and loglik are to be filled in. */
INLINE void update_with_measurements(double *x, double *P, const double *at, const double *output, const double *H,
                                     const double *y, const double *r, double gate, int gating, dyn_sample *out,
                                     dyn_smoother_data *smoother) {
  static const char output_sparsity[SIZE(NY)][N] = OUTPUT_SPARSITY;
  double work[W], determinant = 1;
  int i, j, count = 0;
  if (gating) out->nis = 0;
  for (j = 0; j < NY; j++) {
    const double *h = H + j * N;
    const char *pattern = output_sparsity[j];
    double innovation = y[j] - output[j], along, s, inverse;
    if (gating) { out->used[j] = 0; out->whitened[j] = NAN; }
    if (smoother) {
      memset(smoother->h[j], 0, sizeof smoother->h[j]);
      memset(smoother->c[j], 0, sizeof smoother->c[j]);
      smoother->e[j] = 0;
    }
    if (!isfinite(y[j])) continue;
    for (i = 0; i < N; i++) if (pattern[i]) innovation -= h[i] * (x[i] - at[i]);
    along = predicted_variance(P, h, pattern, work);
    s = along + r[j];
    inverse = 1 / s;
    if (gating) {
      out->used[j] = gate > 0 && innovation * innovation > gate * gate * s ? 2 : 1;
      if (out->used[j] == 1) {
        out->whitened[j] = innovation * sqrt(inverse);
        out->nis += innovation * innovation * inverse;
        determinant *= TWO_PI * s;
        count++;
      }
    }
    if (out->used[j] != 1) continue;
    if (smoother) {
      const double root = sqrt(s);
      kalman_gain(P, work, 1 / root, smoother->c[j]);
      for (i = 0; i < N; i++) smoother->h[j][i] = h[i] / root;
      smoother->e[j] = innovation / root;
    }
    update_scalar(x, P, along, innovation, r[j], inverse, work);
  }
  symmetrize(P);
  if (gating) out->loglik = count ? -0.5 * (log(determinant) + out->nis) : 0;
}
