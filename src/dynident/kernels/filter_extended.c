/* Extended Kalman filter; with ITERATIONS above 1 the measurement is linearised again at the new estimate. */

typedef struct {        /* what the filter knows */
  double t, started, u[SIZE(NU)];
  double x[N];
  double P[N * W];      /* as FORM keeps it */
} dyn_memory;

MELT void foresee(dyn_memory *m, const dyn_settings *s, double t, const double *u, double *A) {
  const double gap = t - m->t;
  const int count = steps_over(s, gap);
  const double h = gap / count;
  double u0[SIZE(NU)], u1[SIZE(NU)], next[NX], F[NX * W], q[N];
  int i, k;
  for (i = 0; i < N; i++) q[i] = s->per_sample ? s->q[i] / count : s->q[i] * h;
  for (k = 0; k < count; k++) {
    const double now = m->t + k * h;
    const double *arg[6] = {&now, &h, m->x, u0, u1, s->p};
    inputs_between(s, m->u, u, k, count, u0, u1);
    dyn_next_rows(arg, next, F);
    memcpy(m->x, next, sizeof next);
    through_step(F, m->P, q);
    if (A) follow(F, A);
  }
}

static int dyn_update(dyn_memory *m, const dyn_settings *s, double t, const double *u, const double *y, const double *r,
                      dyn_sample *out, dyn_link *link) {
  double seen[SIZE(NY)], H[SIZE(NY * N)], at[N];
  const double *arg[4] = {&t, at, u, s->p};
  double *res[2] = {seen, H};
#if ITERATIONS > 1
  double x_before[N], P_before[N * W];
  int iteration;
#endif
  if (link) stand_still(link->A);
  if (m->started) {
    if (t < m->t) return TIME_GOES_BACK;
    if (t > m->t) foresee(m, s, t, u, link ? link->A : 0);
  }
  m->started = 1;
  m->t = t;
  memcpy(m->u, u, sizeof(double) * NU);
  memcpy(at, m->x, sizeof at);
  dyn_seen_jac(arg, res, 0, 0, 0);
  memcpy(out->predicted, seen, sizeof(double) * NY);
#if ITERATIONS > 1
  memcpy(x_before, m->x, sizeof x_before);
  memcpy(P_before, m->P, sizeof P_before);
#endif
  take_measurements(m->x, m->P, at, seen, H, y, r, s->gate, 1, out, link);
#if ITERATIONS > 1
  for (iteration = 1; iteration < ITERATIONS; iteration++) {
    memcpy(at, m->x, sizeof at);
    dyn_seen_jac(arg, res, 0, 0, 0);
    memcpy(m->x, x_before, sizeof x_before);
    memcpy(m->P, P_before, sizeof P_before);
    take_measurements(m->x, m->P, at, seen, H, y, r, s->gate, 0, out, link);
  }
#endif
#if NT > 0 && FORM == 2
  { double P[N * N]; covariance_of(m->P, P); out->projected = put_back(m->x, P, N, s, 0); }
#else
  out->projected = put_back(m->x, m->P, KEPT, s, 0);
#endif
  memcpy(out->x, m->x, sizeof m->x);
  if (link) covariance_of(m->P, link->P);
  if (!variances_of(m->P, out->variance)) return NOT_POSITIVE;
  return all_finite(m->x, N) && all_finite(out->variance, N) ? FINE : NOT_FINITE;
}

static void dyn_present(const dyn_memory *m, double *x, double *P) {
  memcpy(x, m->x, sizeof m->x);
  covariance_of(m->P, P);
}
