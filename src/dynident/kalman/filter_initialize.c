/* How every filter begins: nothing remembered but where it starts. */

static int dyn_initialize(dyn_memory *m, double t, double started, const double *u, const double *x, const double *P) {
  memset(m, 0, sizeof *m);
  m->t = t;
  m->started = started;
  memcpy(m->u, u, sizeof(double) * NU);
  memcpy(m->x, x, sizeof m->x);
#if FORM == 2
  return cholesky(P, m->P) ? FINE : NOT_POSITIVE;
#else
  {
    int i;
    for (i = 0; i < N; i++) memcpy(m->P + i * ROW_STRIDE, P + i * N, sizeof(double) * N);
  }
  return FINE;
#endif
}
