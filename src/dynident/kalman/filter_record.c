/* A whole record in one call, and the smoother (Rauch, Tung, Striebel: RTS smoother) that goes back over it. */

/* P as a full matrix; `started` says that t and u are known, so that time runs from there to the first sample. */
int dynident_filter_initialize(dyn_memory *memory, double t, double started, const double *u, const double *x,
                          const double *P) {
  return dyn_initialize(memory, t, started, u, x, P);
}

void dynident_filter_estimate(const dyn_memory *memory, double *x, double *P) { dyn_estimate(memory, x, P); }

/* `from` is filled in on a fault: the index of the sample. r has one row (r_rows = 1) or one per sample. */
int dynident_filter_record(long long samples, dyn_memory *memory, const dyn_settings *settings, const double *t,
                           const double *u, const double *y, const double *r, long long r_rows, dyn_sample *out,
                           dyn_smoother_data *smoother_data, long long *from) {
  long long k;
  for (k = 0; k < samples; k++) {
    const int fault = dyn_update(memory, settings, t[k], u + k * NU, y + k * NY, r + (r_rows > 1 ? k * NY : 0),
                                 out + k, smoother_data ? smoother_data + k : 0);
    if (fault) { *from = k; return fault; }
  }
  return FINE;
}

int dynident_filter_update(dyn_memory *memory, const dyn_settings *settings, const double *packed, dyn_sample *out) {
  return dyn_update(memory, settings, packed[0], packed + 1, packed + 1 + NU, packed + 1 + NU + NY, out, 0);
}

void dynident_filter_sizes(long long *sizes) {
  sizes[0] = sizeof(dyn_memory) / sizeof(double);
  sizes[1] = sizeof(dyn_settings) / sizeof(double);
  sizes[2] = sizeof(dyn_sample) / sizeof(double);
  sizes[3] = sizeof(dyn_smoother_data) / sizeof(double);
}

/* Lambda <- [A; 0 I]' Lambda [A; 0 I], its rows W apart */
INLINE void adjoint_covariance(const double *restrict A, double *restrict Lambda) {
  static const double still[W] = CONSTANT_ENTRIES;
  double M[N * W]; /* Lambda [A; 0 I] */
  int i, c, l;
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_vector sum = CONST_VEC(still + c) * VEC(Lambda + i * W + c);
      for (l = 0; l < NX; l++) sum += Lambda[i * W + l] * CONST_VEC(A + l * N + c);
      VEC(M + i * W + c) = sum;
    }
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_vector sum = still[i] * VEC(M + i * W + c);
      for (l = 0; l < NX; l++) sum += A[l * N + i] * VEC(M + l * W + c);
      VEC(Lambda + i * W + c) = sum;
    }
  for (i = 1; i < N; i++) /* rounding would grow otherwise */
    for (l = 0; l < i; l++) Lambda[i * W + l] = Lambda[l * W + i];
}

/* What is known of one sample once the future is: x - P lambda, and the diagonal of P - P Lambda P. */
INLINE void smooth_sample(const double *x, const double *P, const double *lambda, const double *Lambda, double *xs,
                          double *vs) {
  double moved[W], less[W];
  int i, c, l;
  for (c = 0; c < N; c += LANE) {
    dyn_vector sum = ZERO_VEC, product = ZERO_VEC;
    for (i = 0; i < N; i++) {
      dyn_vector row = ZERO_VEC; /* of Lambda P */
      for (l = 0; l < N; l++) row += Lambda[i * W + l] * CONST_VEC(P + l * N + c);
      sum += lambda[i] * CONST_VEC(P + i * N + c);
      product += row * CONST_VEC(P + i * N + c);
    }
    VEC(moved + c) = sum;
    VEC(less + c) = product;
  }
  for (i = 0; i < N; i++) {
    xs[i] = x[i] - moved[i];
    vs[i] = P[i * N + i] - less[i];
  }
}

/* P - P Lambda P, with Lambda's rows W apart */
static void smoothed_covariance(const double *P, const double *Lambda, double *smoothed) {
  int i, j, k, l;
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) {
      smoothed[i * N + j] = P[i * N + j];
      for (k = 0; k < N; k++)
        for (l = 0; l < N; l++) smoothed[i * N + j] -= P[i * N + k] * Lambda[k * W + l] * P[l * N + j];
    }
}

/* Back over a record. xs, vs: (samples, N), smoothed states and variances; P_first: covariance at the first sample.
   lambda, Lambda: at entry what comes after the last sample says, at return what the record says about its start. */
int dynident_filter_smooth(long long samples, const dyn_sample *filtered, const dyn_smoother_data *smoother_data,
                           double *xs, double *vs, double *P_first, double *lambda, double *Lambda) {
  double kept[N * W] = {0}; /* Lambda */
  long long k;
  int i, j;
  for (i = 0; i < N; i++) memcpy(kept + i * W, Lambda + i * N, sizeof(double) * N);
  for (k = samples - 1; k >= 0; k--) {
    smooth_sample(filtered[k].x, smoother_data[k].P, lambda, kept, xs + k * N, vs + k * N);
    if (!all_finite(xs + k * N, N)) return NOT_FINITE;
    if (k == 0) smoothed_covariance(smoother_data[k].P, kept, P_first);
    adjoint_measurement(smoother_data + k, lambda, kept);
    adjoint_step(smoother_data[k].A, lambda);
    adjoint_covariance(smoother_data[k].A, kept);
  }
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) Lambda[i * N + j] = kept[i * W + j];
  return FINE;
}
