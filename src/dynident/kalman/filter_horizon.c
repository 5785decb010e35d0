/* Moving horizon estimation: after each sample, Gauss-Newton steps on the last HORIZON intervals.

   The least squares problem along the window (prior at its oldest node, measurements, process noise between nodes) is
   linear around the present trajectory. Its solution is one pass of the linear filter forward and one of the smoother
   back: no matrix of the whole window is ever made, and intervals without noise are no special case. The arrival cost
   (the prior of the next window) is the filter's own estimate at the oldest node, linearised where the window has
   converged: nothing is counted twice. Bounds hold for the newest parameters: what lies outside is taken as measured exactly on the bound. */

#define NODES (HORIZON + 1)

typedef struct {
  double t, started, u[SIZE(NU)];
  double x[N];          /* arrival cost: mean and covariance at the oldest node */
  double P[N * W];
  double filled;        /* nodes in the window */
  double time[NODES], input[NODES][SIZE(NU)], y[NODES][SIZE(NY)], r[NODES][SIZE(NY)];
  double used[NODES][SIZE(NY)]; /* as the gate said when the sample came */
  double at[NODES][N];  /* the trajectory around which all is linear */
  double P_newest[N * W];  /* of the newest node, as FORM keeps it */
} dyn_memory;

/* Predict x, P over one interval, the model linear around `at`; A as in dyn_smoother_data, or 0. `next`: the end from
   `at`. */
static void predict_linearized(const dyn_settings *s, double from, double to, const double *u_from, const double *u_to,
                   const double *at, double *x, double *P, double *next, double *A) {
  const int count = substep_count(s, to - from);
  const double h = (to - from) / count;
  double u0[SIZE(NU)], u1[SIZE(NU)], end[NX], F[NX * W], q[N], point[N], off[N];
  int i, j, k;
  for (i = 0; i < N; i++) {
    q[i] = s->per_sample ? s->q[i] / count : s->q[i] * h;
    off[i] = x[i] - at[i];
    point[i] = at[i];
  }
  for (k = 0; k < count; k++) {
    const double now = from + k * h;
    const double *arg[6] = {&now, &h, point, u0, u1, s->p};
    double moved[NX];
    interpolate_inputs(s, u_from, u_to, k, count, u0, u1);
    dyn_next_jacobian(arg, end, F);
    for (i = 0; i < NX; i++) {
      moved[i] = 0;
      for (j = 0; j < N; j++) moved[i] += F[i * W + j] * off[j];
    }
    memcpy(off, moved, sizeof moved);
    memcpy(point, end, sizeof end);
    predict_covariance(F, P, q);
    if (A) chain_transition(F, A);
  }
  for (i = 0; i < N; i++) x[i] = point[i] + off[i];
  if (next) memcpy(next, point, sizeof point);
}

/* The measurements of one node, linear around its point of the trajectory. */
static void update_node(const dyn_memory *m, const dyn_settings *s, int node, double *x, double *P, int gating,
                        dyn_sample *out, dyn_smoother_data *smoother) {
  double output[SIZE(NY)], H[SIZE(NY * N)];
  const double *arg[4] = {&m->time[node], m->at[node], m->input[node], s->p};
  double *res[2] = {output, H};
  dyn_output_jacobian(arg, res, 0, 0, 0);
  if (gating) {
    int i, j;
    for (j = 0; j < NY; j++) {
      out->predicted[j] = output[j];
      for (i = 0; i < N; i++) out->predicted[j] += H[j * N + i] * (x[i] - m->at[node][i]);
    }
  }
  update_with_measurements(x, P, m->at[node], output, H, m->y[node], m->r[node], s->gate, gating, out, smoother);
}

/* Make room: the oldest node leaves the window and becomes part of the arrival cost. */
static void update_arrival_cost(dyn_memory *m, const dyn_settings *s) {
  dyn_sample gone;
  double next[N];
  int k;
  memcpy(gone.used, m->used[0], sizeof gone.used);
  update_node(m, s, 0, m->x, m->P, 0, &gone, 0);
  predict_linearized(s, m->time[0], m->time[1], m->input[0], m->input[1], m->at[0], m->x, m->P, next, 0);
  for (k = 1; k < NODES; k++) {
    m->time[k - 1] = m->time[k];
    memcpy(m->input[k - 1], m->input[k], sizeof m->input[k]);
    memcpy(m->y[k - 1], m->y[k], sizeof m->y[k]);
    memcpy(m->r[k - 1], m->r[k], sizeof m->r[k]);
    memcpy(m->used[k - 1], m->used[k], sizeof m->used[k]);
    memcpy(m->at[k - 1], m->at[k], sizeof m->at[k]);
  }
  m->filled -= 1;
}

static void gauss_newton_step(dyn_memory *m, const dyn_settings *s, int gating, dyn_sample *out, double *P_last) {
  const int last = (int)m->filled - 1;
  double x[N], kept[NODES][N], full[N * N], lambda[N];
  dyn_smoother_data smoother_data[NODES];
  dyn_sample other;
  int i, j, k;
  memcpy(x, m->x, sizeof x);
  memcpy(P_last, m->P, sizeof m->P);
  for (k = 0; k <= last; k++) {
    const int newest = k == last;
    if (!newest || !gating) memcpy(other.used, m->used[k], sizeof other.used);
    update_node(m, s, k, x, P_last, newest && gating, newest && gating ? out : &other, smoother_data + k);
    if (newest && gating) memcpy(m->used[k], out->used, sizeof out->used);
    memcpy(kept[k], x, sizeof x);
    full_covariance(P_last, smoother_data[k].P);
    if (newest) break;
    identity_transition(smoother_data[k + 1].A);
    predict_linearized(s, m->time[k], m->time[k + 1], m->input[k], m->input[k + 1], m->at[k], x, P_last, 0,
                       smoother_data[k + 1].A);
  }
  full_covariance(P_last, full);
  memset(lambda, 0, sizeof lambda);
  out->projected = project_onto_bounds(x, full, N, s, lambda);
  memcpy(m->at[last], x, sizeof x);
  for (k = last - 1; k >= 0; k--) {
    adjoint_measurement(smoother_data + k + 1, lambda, 0);
    adjoint_step(smoother_data[k + 1].A, lambda);
    for (i = 0; i < N; i++) {
      m->at[k][i] = kept[k][i];
      for (j = 0; j < N; j++) m->at[k][i] -= smoother_data[k].P[i * N + j] * lambda[j];
    }
  }
}

static int dyn_update(dyn_memory *m, const dyn_settings *s, double t, const double *u, const double *y, const double *r,
                      dyn_sample *out, dyn_smoother_data *smoother) {
  double spare[N * W], spare_x[N];
  int node, iteration;
  (void)smoother;
  if (m->started && t < m->t) return TIME_GOES_BACK;
  if ((int)m->filled == NODES) update_arrival_cost(m, s);
  node = (int)m->filled;
  if (!m->started || t > m->t) {
    if (node > 0) {
      memcpy(spare, m->P, sizeof spare);
      memcpy(spare_x, m->at[node - 1], sizeof spare_x);
      predict_linearized(s, m->t, t, m->u, u, m->at[node - 1], spare_x, spare, m->at[node], 0);
    } else {
      if (m->started && t > m->t) predict_linearized(s, m->t, t, m->u, u, m->x, m->x, m->P, spare_x, 0);
      memcpy(m->at[0], m->x, sizeof m->x);
    }
  } else {
    memcpy(m->at[node], node ? m->at[node - 1] : m->x, sizeof m->x);
  }
  m->started = 1;
  m->t = m->time[node] = t;
  memcpy(m->u, u, sizeof(double) * NU);
  memcpy(m->input[node], u, sizeof(double) * NU);
  memcpy(m->y[node], y, sizeof(double) * NY);
  memcpy(m->r[node], r, sizeof(double) * NY);
  m->filled = node + 1;
  for (iteration = 0; iteration < ITERATIONS; iteration++)
    gauss_newton_step(m, s, iteration == 0, out, m->P_newest);
  memcpy(out->x, m->at[node], sizeof out->x);
  if (!read_variances(m->P_newest, out->variance)) return NOT_POSITIVE;
  return all_finite(out->x, N) && all_finite(out->variance, N) ? FINE : NOT_FINITE;
}

static void dyn_estimate(const dyn_memory *m, double *x, double *P) {
  const int newest = (int)m->filled - 1;
  memcpy(x, newest < 0 ? m->x : m->at[newest], sizeof m->x);
  full_covariance(newest < 0 ? m->P : m->P_newest, P);
}
