/* Unscented Kalman filter: means and covariances through 2 N + 1 sigma points (Julier, Uhlmann; scaled by van der Merwe with
   alpha = 1, kappa = 0, beta = 2). The mean leaves out the middle point, the covariance counts it twice: no weight is
   negative, so the covariance stays positive. */

#define JOINT_UPDATE /* measurements of a sample are taken at once */
#define ROW_STRIDE N
#define POINTS (2 * N + 1)
#define SIDE ROUND_UP(POINTS, LANE) /* sigma points stand side by side; behind the last the middle one is repeated */
#define MIDDLE_WEIGHT 2.0
#define WEIGHT (0.5 / N)

typedef struct {
  double t, started, u[SIZE(NU)];
  double x[N];
  double P[N * N];
} dyn_memory;

/* The sigma points around x; L is the factor of P that spreads them. */
INLINE int draw_sigma_points(const double *x, const double *P, double points[N][SIDE], double *L) {
  const double reach = sqrt((double)N);
  int i, j;
  if (!cholesky(P, L)) return 0;
  for (i = 0; i < N; i++) {
    points[i][0] = x[i];
    for (j = 0; j < N; j++) {
      points[i][1 + j] = x[i] + reach * L[i * N + j];
      points[i][1 + N + j] = x[i] - reach * L[i * N + j];
    }
    for (j = POINTS; j < SIDE; j++) points[i][j] = x[i];
  }
  return 1;
}

/* One step of every point, as many at once as there are lanes. */
INLINE void propagate_sigma_points(double points[N][SIDE], double now, double h, const double *u0, const double *u1,
                                   const double *p) {
  int first, i, l;
  for (first = 0; first < SIDE; first += LANE) {
    double moved[NX][LANE];
    VECTORIZE
    for (l = 0; l < LANE; l++) {
      double a[N], next[NX];
      const double *arg[6] = {&now, &h, a, u0, u1, p};
      double *res[1] = {next};
      for (i = 0; i < N; i++) a[i] = points[i][first + l];
      dyn_next(arg, res, 0, 0, 0);
      for (i = 0; i < NX; i++) moved[i][l] = next[i];
    }
    for (i = 0; i < NX; i++)
      for (l = 0; l < LANE; l++) points[i][first + l] = moved[i][l];
  }
}

/* The sum over a row of numbers side by side. */
INLINE double sum_lanes(dyn_vector sum) {
  double total = 0;
  int l;
  for (l = 0; l < LANE; l++) total += ((const double *)&sum)[l];
  return total;
}

/* Leaves only what the values at the points differ by from their mean, which is returned. */
INLINE double subtract_mean(double values[SIDE]) {
  const double middle = values[0];
  dyn_vector sum = ZERO_VEC;
  double off;
  int l;
  for (l = 0; l < SIDE; l += LANE) sum += VEC(values + l) - middle;
  off = WEIGHT * sum_lanes(sum);
  for (l = 0; l < SIDE; l += LANE) VEC(values + l) -= middle + off;
  return middle + off;
}

/* The covariance of two quantities that were centred; repeated middle points are counted in. */
INLINE double weighted_covariance(const double *a, const double *b) {
  dyn_vector sum = ZERO_VEC;
  int l;
  for (l = 0; l < SIDE; l += LANE) sum += CONST_VEC(a + l) * CONST_VEC(b + l);
  return WEIGHT * sum_lanes(sum) + (MIDDLE_WEIGHT - (1 + SIDE - POINTS) * WEIGHT) * a[0] * b[0];
}

/* Statistical linearization, the line through what the points became: slope in x of one quantity, from its values at the
   points. */
static void statistical_linearization(const double *L, const double *values, double *slope) {
  const double reach = sqrt((double)N);
  int i, j;
  for (j = N - 1; j >= 0; j--) {
    double sum = (values[1 + j] - values[1 + N + j]) / (2 * reach);
    for (i = j + 1; i < N; i++) sum -= slope[i] * L[i * N + j];
    slope[j] = L[j * N + j] > 0 ? sum / L[j * N + j] : 0; /* no spread, no slope: nothing depends on it */
  }
}

static int predict(dyn_memory *m, const dyn_settings *s, double t, const double *u, double *A) {
  const double gap = t - m->t;
  const int count = substep_count(s, gap);
  const double h = gap / count;
  double points[N][SIDE], u0[SIZE(NU)], u1[SIZE(NU)], L[N * N];
  int i, j, k;
  if (!draw_sigma_points(m->x, m->P, points, L)) return 0;
  for (k = 0; k < count; k++) {
    interpolate_inputs(s, m->u, u, k, count, u0, u1);
    propagate_sigma_points(points, m->t + k * h, h, u0, u1, s->p);
  }
  if (A) for (i = 0; i < NX; i++) statistical_linearization(L, points[i], A + i * N);
  for (i = 0; i < N; i++) m->x[i] = subtract_mean(points[i]);
  for (i = 0; i < N; i++)
    for (j = i; j < N; j++) m->P[i * N + j] = m->P[j * N + i] = weighted_covariance(points[i], points[j]);
  for (i = 0; i < N; i++) m->P[i * N + i] += s->per_sample ? s->q[i] : s->q[i] * gap;
  return 1;
}

/* The outputs at every point. */
INLINE void outputs_at_sigma_points(double points[N][SIDE], const double *t, const double *u, const double *p,
                                    double Y[SIZE(NY)][SIDE]) {
  int i, j, l;
  for (l = 0; l < SIDE; l++) {
    double a[N], output[SIZE(NY)];
    const double *arg[4] = {t, a, u, p};
    double *res[1] = {output};
    for (i = 0; i < N; i++) a[i] = points[i][l];
    dyn_output(arg, res, 0, 0, 0);
    for (j = 0; j < NY; j++) Y[j][l] = output[j];
  }
}

/* Which outputs count: measured, and inside the gate. Returns how many; `which` lists them. */
static int apply_gate(const double *y, const double *mean, const double *r, double Y[SIZE(NY)][SIDE], double gate,
                 int *which, dyn_sample *out) {
  int j, count = 0;
  for (j = 0; j < NY; j++) {
    const double innovation = y[j] - mean[j];
    out->used[j] = 0;
    out->whitened[j] = NAN;
    if (!isfinite(y[j])) continue;
    out->used[j] = gate > 0 && innovation * innovation > gate * gate * (weighted_covariance(Y[j], Y[j]) + r[j]) ? 2 : 1;
    if (out->used[j] == 1) which[count++] = j;
  }
  return count;
}

static int joint_update(dyn_memory *m, const dyn_settings *s, const double *t, const double *u, const double *y,
                       const double *r, dyn_sample *out, dyn_smoother_data *smoother) {
  const double reach = sqrt((double)N);
  double points[N][SIDE], L[N * N], Y[SIZE(NY)][SIDE], mean[SIZE(NY)], S[SIZE(NY)][SIZE(NY)], C[SIZE(NY)][N];
  double determinant = 1;
  int which[SIZE(NY)], count, a, b, i, j;
  if (!draw_sigma_points(m->x, m->P, points, L)) return 0;
  if (smoother) {
    memset(smoother->h, 0, sizeof smoother->h);
    memset(smoother->c, 0, sizeof smoother->c);
    memset(smoother->e, 0, sizeof smoother->e);
  }
  outputs_at_sigma_points(points, t, u, s->p, Y);
  for (j = 0; j < NY; j++) out->predicted[j] = mean[j] = subtract_mean(Y[j]);
  count = apply_gate(y, mean, r, Y, s->gate, which, out);
  out->nis = 0;
  for (a = 0; a < count; a++) { /* one whitened innovation after another: S = G G', C <- C G^-T */
    const int ja = which[a];
    double e = y[ja] - mean[ja];
    for (b = 0; b <= a; b++) {
      double sum = weighted_covariance(Y[ja], Y[which[b]]);
      if (a == b) sum += r[ja];
      for (j = 0; j < b; j++) sum -= S[a][j] * S[b][j];
      S[a][b] = a == b ? sqrt(sum) : sum / S[b][b];
    }
    if (!(S[a][a] > 0)) return 0;
    for (i = 0; i < N; i++) {
      double sum = 0; /* points lie in pairs at x + reach L and x - reach L */
      for (j = 0; j <= i; j++) sum += L[i * N + j] * (Y[ja][1 + j] - Y[ja][1 + N + j]);
      sum *= WEIGHT * reach;
      for (b = 0; b < a; b++) sum -= C[b][i] * S[a][b];
      C[a][i] = sum / S[a][a];
    }
    for (b = 0; b < a; b++) e -= S[a][b] * out->whitened[which[b]];
    out->whitened[ja] = e / S[a][a];
    out->nis += out->whitened[ja] * out->whitened[ja];
    determinant *= TWO_PI * S[a][a] * S[a][a];
    if (smoother) { /* rows in whitened order: row a of G^-1 H */
      statistical_linearization(L, Y[ja], smoother->h[a]);
      for (i = 0; i < N; i++) {
        for (b = 0; b < a; b++) smoother->h[a][i] -= S[a][b] * smoother->h[b][i];
        smoother->h[a][i] /= S[a][a];
        smoother->c[a][i] = C[a][i];
      }
      smoother->e[a] = out->whitened[ja];
    }
  }
  for (a = 0; a < count; a++)
    for (i = 0; i < N; i++) {
      m->x[i] += C[a][i] * out->whitened[which[a]];
      for (j = 0; j < N; j++) m->P[i * N + j] -= C[a][i] * C[a][j];
    }
  out->loglik = count ? -0.5 * (log(determinant) + out->nis) : 0;
  return 1;
}

static int dyn_update(dyn_memory *m, const dyn_settings *s, double t, const double *u, const double *y, const double *r,
                      dyn_sample *out, dyn_smoother_data *smoother) {
  int i, positive = 1;
  if (smoother) identity_transition(smoother->A);
  if (m->started) {
    if (t < m->t) return TIME_GOES_BACK;
    if (t > m->t && !predict(m, s, t, u, smoother ? smoother->A : 0)) return NOT_POSITIVE;
  }
  m->started = 1;
  m->t = t;
  memcpy(m->u, u, sizeof(double) * NU);
  if (!all_finite(m->x, N)) return NOT_FINITE;
  if (!joint_update(m, s, &t, u, y, r, out, smoother)) return NOT_POSITIVE;
  out->projected = project_onto_bounds(m->x, m->P, ROW_STRIDE, s, 0);
  memcpy(out->x, m->x, sizeof m->x);
  if (smoother) memcpy(smoother->P, m->P, sizeof m->P);
  for (i = 0; i < N; i++) {
    out->variance[i] = m->P[i * N + i];
    if (out->variance[i] < 0) positive = 0;
  }
  if (!positive) return NOT_POSITIVE;
  return all_finite(m->x, N) && all_finite(out->variance, N) ? FINE : NOT_FINITE;
}

static void dyn_estimate(const dyn_memory *m, double *x, double *P) {
  memcpy(x, m->x, sizeof m->x);
  memcpy(P, m->P, sizeof m->P);
}
