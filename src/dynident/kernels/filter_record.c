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

/* Rauch, Tung, Striebel. xs, vs: (samples, N), smoothed states and variances; P: that of the last sample at entry, of
   the first at return; xs[samples - 1] is given. */
int dynident_filter_smooth(long long samples, const dyn_sample *filtered, const dyn_link *links, double *xs, double *vs,
                           double *P) {
  double L[N * N], G[N * N], D[N * N], M[N * N], step[N];
  long long k;
  int i, j, l;
  for (i = 0; i < N; i++) vs[(samples - 1) * N + i] = P[i * N + i];
  for (k = samples - 2; k >= 0; k--) {
    const dyn_link *next = links + k + 1;
    const double *after = xs + (k + 1) * N;
    double *now = xs + k * N;
    if (!cholesky(next->P_before, L)) return NOT_POSITIVE;
    for (i = 0; i < N; i++) { /* row i of the gain: G (L L') = cross */
      double *restrict g = G + i * N;
      for (j = 0; j < N; j++) {
        double sum = next->cross[i * N + j];
        for (l = 0; l < j; l++) sum -= g[l] * L[j * N + l];
        g[j] = L[j * N + j] > 0 ? sum / L[j * N + j] : 0;
      }
      for (j = N - 1; j >= 0; j--) {
        double sum = g[j];
        for (l = j + 1; l < N; l++) sum -= g[l] * L[l * N + j];
        g[j] = L[j * N + j] > 0 ? sum / L[j * N + j] : 0;
      }
    }
    for (i = 0; i < N; i++) step[i] = after[i] - next->before[i];
    for (i = 0; i < N * N; i++) D[i] = P[i] - next->P_before[i];
    for (i = 0; i < N; i++) {
      const double *restrict g = G + i * N;
      double *restrict m = M + i * N;
      now[i] = filtered[k].x[i];
      for (j = 0; j < N; j++) { now[i] += g[j] * step[j]; m[j] = 0; }
      for (l = 0; l < N; l++)
        for (j = 0; j < N; j++) m[j] += g[l] * D[l * N + j];
    }
    for (i = 0; i < N; i++)
      for (j = i; j < N; j++) {
        double sum = links[k].P[i * N + j];
        for (l = 0; l < N; l++) sum += M[i * N + l] * G[j * N + l];
        P[i * N + j] = P[j * N + i] = sum;
      }
    for (i = 0; i < N; i++) vs[k * N + i] = P[i * N + i];
    if (!all_finite(now, N)) return NOT_FINITE;
  }
  return FINE;
}
