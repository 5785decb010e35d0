/* Extended Kalman filter; with ITERATIONS above 1 the measurement is linearised again at the new estimate. */

typedef struct {        /* what the filter knows */
  double t, started, u[SIZE(NU)];
  double x[N];
  double P[N * W];      /* as FORM keeps it */
} dyn_memory;

INLINE void predict(dyn_memory *m, const dyn_settings *s, double t, const double *u, double *A) {
  const double gap = t - m->t;
  const int count = substep_count(s, gap);
  const double h = gap / count;
  double u0[SIZE(NU)], u1[SIZE(NU)], next[NX], F[NX * W], q[N];
  int i, k;
  for (i = 0; i < N; i++) q[i] = s->per_sample ? s->q[i] / count : s->q[i] * h;
  for (k = 0; k < count; k++) {
    const double now = m->t + k * h;
    const double *arg[6] = {&now, &h, m->x, u0, u1, s->p};
    interpolate_inputs(s, m->u, u, k, count, u0, u1);
    dyn_next_jacobian(arg, next, F);
    memcpy(m->x, next, sizeof next);
    predict_covariance(F, m->P, q);
    if (A) chain_transition(F, A);
  }
}

static int dyn_update(dyn_memory *m, const dyn_settings *s, double t, const double *u, const double *y, const double *r,
                      dyn_sample *out, dyn_smoother_data *smoother) {
  double output[SIZE(NY)], H[SIZE(NY * N)], at[N];
  const double *arg[4] = {&t, at, u, s->p};
  double *res[2] = {output, H};
#if ITERATIONS > 1
  double x_before[N], P_before[N * W];
  int iteration;
#endif
  if (smoother) identity_transition(smoother->A);
  if (m->started) {
    if (t < m->t) return TIME_GOES_BACK;
    if (t > m->t) predict(m, s, t, u, smoother ? smoother->A : 0);
  }
  m->started = 1;
  m->t = t;
  memcpy(m->u, u, sizeof(double) * NU);
  memcpy(at, m->x, sizeof at);
  dyn_output_jacobian(arg, res, 0, 0, 0);
  memcpy(out->predicted, output, sizeof(double) * NY);
#if ITERATIONS > 1
  memcpy(x_before, m->x, sizeof x_before);
  memcpy(P_before, m->P, sizeof P_before);
#endif
  update_with_measurements(m->x, m->P, at, output, H, y, r, s->gate, 1, out, smoother);
#if ITERATIONS > 1
  for (iteration = 1; iteration < ITERATIONS; iteration++) {
    memcpy(at, m->x, sizeof at);
    dyn_output_jacobian(arg, res, 0, 0, 0);
    memcpy(m->x, x_before, sizeof x_before);
    memcpy(m->P, P_before, sizeof P_before);
    update_with_measurements(m->x, m->P, at, output, H, y, r, s->gate, 0, out, smoother);
  }
#endif
#if NT > 0 && FORM == 2
  { double P[N * N]; full_covariance(m->P, P); out->projected = project_onto_bounds(m->x, P, N, s, 0); }
#else
  out->projected = project_onto_bounds(m->x, m->P, ROW_STRIDE, s, 0);
#endif
  memcpy(out->x, m->x, sizeof m->x);
  if (smoother) full_covariance(m->P, smoother->P);
  if (!read_variances(m->P, out->variance)) return NOT_POSITIVE;
  return all_finite(m->x, N) && all_finite(out->variance, N) ? FINE : NOT_FINITE;
}

static void dyn_estimate(const dyn_memory *m, double *x, double *P) {
  memcpy(x, m->x, sizeof m->x);
  full_covariance(m->P, P);
}
