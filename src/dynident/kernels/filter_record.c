/* A whole record in one call, and the smoother that goes back over it. */

/* P as a full matrix; `started` says that t and u are known, so that time runs from there to the first sample. */
int dynident_filter_begin(dyn_memory *memory, double t, double started, const double *u, const double *x,
                          const double *P) {
  return dyn_begin(memory, t, started, u, x, P);
}

void dynident_filter_present(const dyn_memory *memory, double *x, double *P) { dyn_present(memory, x, P); }

/* `from` is filled in on a fault: the index of the sample. r has one row (r_rows = 1) or one per sample. */
int dynident_filter_record(long long samples, dyn_memory *memory, const dyn_settings *settings, const double *t,
                           const double *u, const double *y, const double *r, long long r_rows, dyn_sample *out,
                           dyn_link *links, long long *from) {
  long long k;
  for (k = 0; k < samples; k++) {
    const int fault = dyn_update(memory, settings, t[k], u + k * NU, y + k * NY, r + (r_rows > 1 ? k * NY : 0),
                                 out + k, links ? links + k : 0);
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
  sizes[3] = sizeof(dyn_link) / sizeof(double);
}

/* Lambda <- [A; 0 I]' Lambda [A; 0 I], its rows W apart */
MELT void adjoint_covariance(const double *restrict A, double *restrict Lambda) {
  static const double still[W] = STILL;
  double M[N * W]; /* Lambda [A; 0 I] */
  int i, c, l;
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_lane sum = SEEN_AT(still + c) * AT(Lambda + i * W + c);
      for (l = 0; l < NX; l++) sum += Lambda[i * W + l] * SEEN_AT(A + l * N + c);
      AT(M + i * W + c) = sum;
    }
  for (i = 0; i < N; i++)
    for (c = 0; c < N; c += LANE) {
      dyn_lane sum = still[i] * AT(M + i * W + c);
      for (l = 0; l < NX; l++) sum += A[l * N + i] * AT(M + l * W + c);
      AT(Lambda + i * W + c) = sum;
    }
  for (i = 1; i < N; i++) /* rounding would grow otherwise */
    for (l = 0; l < i; l++) Lambda[i * W + l] = Lambda[l * W + i];
}

/* What is known of one sample once the future is: x - P lambda, and the diagonal of P - P Lambda P. */
MELT void with_the_future(const double *x, const double *P, const double *lambda, const double *Lambda, double *xs,
                            double *vs) {
  double moved[W], less[W];
  int i, c, l;
  for (c = 0; c < N; c += LANE) {
    dyn_lane sum = NOTHING, product = NOTHING;
    for (i = 0; i < N; i++) {
      dyn_lane row = NOTHING; /* of Lambda P */
      for (l = 0; l < N; l++) row += Lambda[i * W + l] * SEEN_AT(P + l * N + c);
      sum += lambda[i] * SEEN_AT(P + i * N + c);
      product += row * SEEN_AT(P + i * N + c);
    }
    AT(moved + c) = sum;
    AT(less + c) = product;
  }
  for (i = 0; i < N; i++) {
    xs[i] = x[i] - moved[i];
    vs[i] = P[i * N + i] - less[i];
  }
}

/* P - P Lambda P, with Lambda's rows W apart */
static void covariance_with_the_future(const double *P, const double *Lambda, double *smoothed) {
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
int dynident_filter_smooth(long long samples, const dyn_sample *filtered, const dyn_link *links, double *xs, double *vs,
                           double *P_first, double *lambda, double *Lambda) {
  double kept[N * W] = {0}; /* Lambda */
  long long k;
  int i, j;
  for (i = 0; i < N; i++) memcpy(kept + i * W, Lambda + i * N, sizeof(double) * N);
  for (k = samples - 1; k >= 0; k--) {
    with_the_future(filtered[k].x, links[k].P, lambda, kept, xs + k * N, vs + k * N);
    if (!all_finite(xs + k * N, N)) return NOT_FINITE;
    if (k == 0) covariance_with_the_future(links[k].P, kept, P_first);
    adjoint_measurement(links + k, lambda, kept);
    adjoint_step(links[k].A, lambda);
    adjoint_covariance(links[k].A, kept);
  }
  for (i = 0; i < N; i++)
    for (j = 0; j < N; j++) Lambda[i * N + j] = kept[i * W + j];
  return FINE;
}
