/* Unscented Kalman filter: means and covariances through 2 N + 1 points (Julier, Uhlmann; scaled by van der Merwe with
   alpha = 1, kappa = 0, beta = 2). The mean leaves out the middle point, the covariance counts it twice: no weight is
   negative, so the covariance stays positive. */

#define TOGETHER /* measurements of a sample are taken at once */
#define KEPT N
#define POINTS (2 * N + 1)
#define SIDE WHOLE(POINTS, LANE) /* points stand side by side; behind the last the middle one is repeated */
#define MIDDLE_WEIGHT 2.0
#define WEIGHT (0.5 / N)

typedef struct {
  double t, started, u[SIZE(NU)];
  double x[N];
  double P[N * N];
} dyn_memory;

/* The points around x; L is the factor of P that spreads them. */
MELT int draw(const double *x, const double *P, double points[N][SIDE], double *L) {
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
MELT void move(double points[N][SIDE], double now, double h, const double *u0, const double *u1, const double *p) {
  int first, i, l;
  for (first = 0; first < SIDE; first += LANE) {
    double moved[NX][LANE];
    IN_LANES
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
MELT double added(dyn_lane sum) {
  double total = 0;
  int l;
  for (l = 0; l < LANE; l++) total += ((const double *)&sum)[l];
  return total;
}

/* Leaves only what the values at the points differ by from their mean, which is returned. */
MELT double centre(double values[SIDE]) {
  const double middle = values[0];
  dyn_lane sum = NOTHING;
  double off;
  int l;
  for (l = 0; l < SIDE; l += LANE) sum += AT(values + l) - middle;
  off = WEIGHT * added(sum);
  for (l = 0; l < SIDE; l += LANE) AT(values + l) -= middle + off;
  return middle + off;
}

/* The covariance of two quantities that were centred; repeated middle points are counted in. */
MELT double together(const double *a, const double *b) {
  dyn_lane sum = NOTHING;
  int l;
  for (l = 0; l < SIDE; l += LANE) sum += SEEN_AT(a + l) * SEEN_AT(b + l);
  return WEIGHT * added(sum) + (MIDDLE_WEIGHT - (1 + SIDE - POINTS) * WEIGHT) * a[0] * b[0];
}

/* The line through what the points became: slope in x of one quantity, from its values at the points. */
static void regress(const double *L, const double *values, double *slope) {
  const double reach = sqrt((double)N);
  int i, j;
  for (j = N - 1; j >= 0; j--) {
    double sum = (values[1 + j] - values[1 + N + j]) / (2 * reach);
    for (i = j + 1; i < N; i++) sum -= slope[i] * L[i * N + j];
    slope[j] = L[j * N + j] > 0 ? sum / L[j * N + j] : 0; /* no spread, no slope: nothing depends on it */
  }
}

static int foresee(dyn_memory *m, const dyn_settings *s, double t, const double *u, double *A) {
  const double gap = t - m->t;
  const int count = steps_over(s, gap);
  const double h = gap / count;
  double points[N][SIDE], u0[SIZE(NU)], u1[SIZE(NU)], L[N * N];
  int i, j, k;
  if (!draw(m->x, m->P, points, L)) return 0;
  for (k = 0; k < count; k++) {
    inputs_between(s, m->u, u, k, count, u0, u1);
    move(points, m->t + k * h, h, u0, u1, s->p);
  }
  if (A) for (i = 0; i < NX; i++) regress(L, points[i], A + i * N);
  for (i = 0; i < N; i++) m->x[i] = centre(points[i]);
  for (i = 0; i < N; i++)
    for (j = i; j < N; j++) m->P[i * N + j] = m->P[j * N + i] = together(points[i], points[j]);
  for (i = 0; i < N; i++) m->P[i * N + i] += s->per_sample ? s->q[i] : s->q[i] * gap;
  return 1;
}

/* The outputs at every point. */
MELT void look(double points[N][SIDE], const double *t, const double *u, const double *p, double Y[SIZE(NY)][SIDE]) {
  int i, j, l;
  for (l = 0; l < SIDE; l++) {
    double a[N], seen[SIZE(NY)];
    const double *arg[4] = {t, a, u, p};
    double *res[1] = {seen};
    for (i = 0; i < N; i++) a[i] = points[i][l];
    dyn_seen(arg, res, 0, 0, 0);
    for (j = 0; j < NY; j++) Y[j][l] = seen[j];
  }
}

/* Which outputs count: measured, and inside the gate. Returns how many; `which` lists them. */
static int admit(const double *y, const double *mean, const double *r, double Y[SIZE(NY)][SIDE], double gate,
                 int *which, dyn_sample *out) {
  int j, count = 0;
  for (j = 0; j < NY; j++) {
    const double innovation = y[j] - mean[j];
    out->used[j] = 0;
    out->whitened[j] = NAN;
    if (!isfinite(y[j])) continue;
    out->used[j] = gate > 0 && innovation * innovation > gate * gate * (together(Y[j], Y[j]) + r[j]) ? 2 : 1;
    if (out->used[j] == 1) which[count++] = j;
  }
  return count;
}

static int take_sample(dyn_memory *m, const dyn_settings *s, const double *t, const double *u, const double *y,
                       const double *r, dyn_sample *out, dyn_link *link) {
  const double reach = sqrt((double)N);
  double points[N][SIDE], L[N * N], Y[SIZE(NY)][SIDE], mean[SIZE(NY)], S[SIZE(NY)][SIZE(NY)], C[SIZE(NY)][N];
  double volume = 1;
  int which[SIZE(NY)], count, a, b, i, j;
  if (!draw(m->x, m->P, points, L)) return 0;
  if (link) { memset(link->h, 0, sizeof link->h); memset(link->c, 0, sizeof link->c); memset(link->e, 0, sizeof link->e); }
  look(points, t, u, s->p, Y);
  for (j = 0; j < NY; j++) out->predicted[j] = mean[j] = centre(Y[j]);
  count = admit(y, mean, r, Y, s->gate, which, out);
  out->nis = 0;
  for (a = 0; a < count; a++) { /* one whitened innovation after another: S = G G', C <- C G^-T */
    const int ja = which[a];
    double e = y[ja] - mean[ja];
    for (b = 0; b <= a; b++) {
      double sum = together(Y[ja], Y[which[b]]);
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
    volume *= TWO_PI * S[a][a] * S[a][a];
    if (link) { /* rows in whitened order: row a of G^-1 H */
      regress(L, Y[ja], link->h[a]);
      for (i = 0; i < N; i++) {
        for (b = 0; b < a; b++) link->h[a][i] -= S[a][b] * link->h[b][i];
        link->h[a][i] /= S[a][a];
        link->c[a][i] = C[a][i];
      }
      link->e[a] = out->whitened[ja];
    }
  }
  for (a = 0; a < count; a++)
    for (i = 0; i < N; i++) {
      m->x[i] += C[a][i] * out->whitened[which[a]];
      for (j = 0; j < N; j++) m->P[i * N + j] -= C[a][i] * C[a][j];
    }
  out->loglik = count ? -0.5 * (log(volume) + out->nis) : 0;
  return 1;
}

static int dyn_update(dyn_memory *m, const dyn_settings *s, double t, const double *u, const double *y, const double *r,
                      dyn_sample *out, dyn_link *link) {
  int i, positive = 1;
  if (link) stand_still(link->A);
  if (m->started) {
    if (t < m->t) return TIME_GOES_BACK;
    if (t > m->t && !foresee(m, s, t, u, link ? link->A : 0)) return NOT_POSITIVE;
  }
  m->started = 1;
  m->t = t;
  memcpy(m->u, u, sizeof(double) * NU);
  if (!all_finite(m->x, N)) return NOT_FINITE;
  if (!take_sample(m, s, &t, u, y, r, out, link)) return NOT_POSITIVE;
  out->projected = put_back(m->x, m->P, KEPT, s, 0);
  memcpy(out->x, m->x, sizeof m->x);
  if (link) memcpy(link->P, m->P, sizeof m->P);
  for (i = 0; i < N; i++) {
    out->variance[i] = m->P[i * N + i];
    if (out->variance[i] < 0) positive = 0;
  }
  if (!positive) return NOT_POSITIVE;
  return all_finite(m->x, N) && all_finite(out->variance, N) ? FINE : NOT_FINITE;
}

static void dyn_present(const dyn_memory *m, double *x, double *P) {
  memcpy(x, m->x, sizeof m->x);
  memcpy(P, m->P, sizeof m->P);
}
