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

/* Lambda <- [A; 0 I]' Lambda [A; 0 I] */
static void adjoint_covariance(const double *restrict A, double *restrict Lambda) {
  double M[N * N]; /* Lambda [A; 0 I] */
  int i, j, l;
  for (i = 0; i < N; i++) {
    double *restrict row = M + i * N;
    for (j = 0; j < NX; j++) row[j] = 0;
    for (j = NX; j < N; j++) row[j] = Lambda[i * N + j];
    for (l = 0; l < NX; l++) {
      const double f = Lambda[i * N + l];
      for (j = 0; j < N; j++) row[j] += f * A[l * N + j];
    }
  }
  for (i = 0; i < N; i++) {
    double row[N];
    for (j = 0; j < N; j++) row[j] = i < NX ? 0 : M[i * N + j];
    for (l = 0; l < NX; l++) {
      const double f = A[l * N + i];
      for (j = 0; j < N; j++) row[j] += f * M[l * N + j];
    }
    for (j = i; j < N; j++) Lambda[i * N + j] = row[j];
  }
  for (i = 1; i < N; i++)
    for (j = 0; j < i; j++) Lambda[i * N + j] = Lambda[j * N + i];
}

/* Back over a record. xs, vs: (samples, N), smoothed states and variances; P_first: covariance at the first sample.
   lambda, Lambda: at entry what comes after the last sample says, at return what the record says about its start. */
int dynident_filter_smooth(long long samples, const dyn_sample *filtered, const dyn_link *links, double *xs, double *vs,
                           double *P_first, double *lambda, double *Lambda) {
  long long k;
  int i, j, l;
  for (k = samples - 1; k >= 0; k--) {
    const double *P = links[k].P;
    double M[N * N]; /* P Lambda */
    for (i = 0; i < N; i++) {
      double sum = filtered[k].x[i], spread = P[i * N + i];
      double *restrict row = M + i * N;
      for (j = 0; j < N; j++) { sum -= P[i * N + j] * lambda[j]; row[j] = 0; }
      for (l = 0; l < N; l++)
        for (j = 0; j < N; j++) row[j] += P[i * N + l] * Lambda[l * N + j];
      for (j = 0; j < N; j++) spread -= row[j] * P[i * N + j];
      xs[k * N + i] = sum;
      vs[k * N + i] = spread;
    }
    if (k == 0)
      for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
          P_first[i * N + j] = P[i * N + j];
          for (l = 0; l < N; l++) P_first[i * N + j] -= M[i * N + l] * P[l * N + j];
        }
    if (!all_finite(xs + k * N, N)) return NOT_FINITE;
    adjoint_measurement(links + k, lambda, Lambda);
    adjoint_step(links[k].A, lambda);
    adjoint_covariance(links[k].A, Lambda);
  }
  return FINE;
}
