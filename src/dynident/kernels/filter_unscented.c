/* Unscented Kalman filter: means and covariances through 2 N + 1 points (Julier, Uhlmann; scaled by van der Merwe with
   alpha = 1, kappa = 0, beta = 2). The mean leaves out the middle point, the covariance counts it twice: no weight is
   negative, so the covariance stays positive. */

#define TOGETHER /* measurements of a sample are taken at once */
#define POINTS (2 * N + 1)
#define MIDDLE_WEIGHT 2.0
#define WEIGHT (0.5 / N)

typedef struct {
  double t, started, u[SIZE(NU)];
  double x[N];
  double P[N * N];
} dyn_memory;

/* The points around x; L is the factor of P that spreads them. */
static int draw(const double *x, const double *P, double points[POINTS][N], double *L) {
  const double reach = sqrt((double)N);
  int i, j;
  if (!cholesky(P, L)) return 0;
  for (i = 0; i < N; i++) points[0][i] = x[i];
  for (j = 0; j < N; j++)
    for (i = 0; i < N; i++) {
      points[1 + j][i] = x[i] + reach * L[i * N + j];
      points[1 + N + j][i] = x[i] - reach * L[i * N + j];
    }
  return 1;
}

/* The line through what the points became: slope in x of one quantity, from its values at the points. */
static void regress(const double *L, const double *values, int stride, double *slope) {
  const double reach = sqrt((double)N);
  int i, j;
  for (j = N - 1; j >= 0; j--) {
    double sum = (values[(1 + j) * stride] - values[(1 + N + j) * stride]) / (2 * reach);
    for (i = j + 1; i < N; i++) sum -= slope[i] * L[i * N + j];
    slope[j] = L[j * N + j] > 0 ? sum / L[j * N + j] : 0; /* no spread, no slope: nothing depends on it */
  }
}

static int foresee(dyn_memory *m, const dyn_settings *s, double t, const double *u, double *A) {
  const double gap = t - m->t;
  const int count = steps_over(s, gap);
  const double h = gap / count;
  double before[POINTS][N], after[POINTS][N], next[NX], u0[SIZE(NU)], u1[SIZE(NU)], mean[N], L[N * N];
  int i, j, k, l;
  if (!draw(m->x, m->P, before, L)) return 0;
  memcpy(after, before, sizeof after);
  for (k = 0; k < count; k++) {
    const double now = m->t + k * h;
    inputs_between(s, m->u, u, k, count, u0, u1);
    for (l = 0; l < POINTS; l++) {
      const double *arg[6] = {&now, &h, after[l], u0, u1, s->p};
      double *res[1] = {next};
      dyn_next(arg, res, 0, 0, 0);
      memcpy(after[l], next, sizeof next);
    }
  }
  for (i = 0; i < N; i++) {
    mean[i] = 0;
    for (l = 1; l < POINTS; l++) mean[i] += after[l][i];
    mean[i] *= WEIGHT;
  }
  if (A) for (i = 0; i < NX; i++) regress(L, &after[0][i], N, A + i * N);
  for (l = 0; l < POINTS; l++)
    for (i = 0; i < N; i++) after[l][i] -= mean[i];
  for (i = 0; i < N; i++)
    for (j = i; j < N; j++) {
      double sum = 0;
      for (l = 1; l < POINTS; l++) sum += after[l][i] * after[l][j];
      sum = WEIGHT * sum + MIDDLE_WEIGHT * after[0][i] * after[0][j];
      m->P[i * N + j] = m->P[j * N + i] = sum;
    }
  for (i = 0; i < N; i++) m->P[i * N + i] += s->per_sample ? s->q[i] : s->q[i] * gap;
  memcpy(m->x, mean, sizeof mean);
  return 1;
}

/* Which outputs count: measured, and inside the gate. Returns how many; `which` lists them. */
static int admit(const double *y, const double *mean, const double *r, double Y[POINTS][SIZE(NY)], double gate,
                 int *which, dyn_sample *out) {
  int j, l, count = 0;
  for (j = 0; j < NY; j++) {
    const double innovation = y[j] - mean[j];
    double s = MIDDLE_WEIGHT * Y[0][j] * Y[0][j];
    out->used[j] = 0;
    out->whitened[j] = NAN;
    if (!isfinite(y[j])) continue;
    for (l = 1; l < POINTS; l++) s += WEIGHT * Y[l][j] * Y[l][j];
    out->used[j] = gate > 0 && innovation * innovation > gate * gate * (s + r[j]) ? 2 : 1;
    if (out->used[j] == 1) which[count++] = j;
  }
  return count;
}

static int take_sample(dyn_memory *m, const dyn_settings *s, const double *t, const double *u, const double *y,
                       const double *r, dyn_sample *out, dyn_link *link) {
  double points[POINTS][N], L[N * N], Y[POINTS][SIZE(NY)], mean[SIZE(NY)], S[SIZE(NY)][SIZE(NY)], C[SIZE(NY)][N];
  double volume = 1;
  int which[SIZE(NY)], count, a, b, i, j, l;
  if (!draw(m->x, m->P, points, L)) return 0;
  if (link) { memset(link->h, 0, sizeof link->h); memset(link->c, 0, sizeof link->c); memset(link->e, 0, sizeof link->e); }
  for (l = 0; l < POINTS; l++) {
    const double *arg[4] = {t, points[l], u, s->p};
    double *res[1] = {Y[l]};
    dyn_seen(arg, res, 0, 0, 0);
  }
  for (j = 0; j < NY; j++) {
    mean[j] = 0;
    for (l = 1; l < POINTS; l++) mean[j] += WEIGHT * Y[l][j];
    for (l = 0; l < POINTS; l++) Y[l][j] -= mean[j];
    out->predicted[j] = mean[j];
  }
  count = admit(y, mean, r, Y, s->gate, which, out);
  out->nis = 0;
  for (a = 0; a < count; a++) { /* one whitened innovation after another: S = G G', C <- C G^-T */
    const int ja = which[a];
    double e = y[ja] - mean[ja];
    for (b = 0; b <= a; b++) {
      double sum = MIDDLE_WEIGHT * Y[0][ja] * Y[0][which[b]];
      for (l = 1; l < POINTS; l++) sum += WEIGHT * Y[l][ja] * Y[l][which[b]];
      if (a == b) sum += r[ja];
      for (j = 0; j < b; j++) sum -= S[a][j] * S[b][j];
      S[a][b] = a == b ? sqrt(sum) : sum / S[b][b];
    }
    if (!(S[a][a] > 0)) return 0;
    for (i = 0; i < N; i++) {
      double sum = 0;
      for (l = 1; l < POINTS; l++) sum += (points[l][i] - points[0][i]) * Y[l][ja];
      sum *= WEIGHT;
      for (b = 0; b < a; b++) sum -= C[b][i] * S[a][b];
      C[a][i] = sum / S[a][a];
    }
    for (b = 0; b < a; b++) e -= S[a][b] * out->whitened[which[b]];
    out->whitened[ja] = e / S[a][a];
    out->nis += out->whitened[ja] * out->whitened[ja];
    volume *= TWO_PI * S[a][a] * S[a][a];
    if (link) { /* rows in whitened order: row a of G^-1 H */
      regress(L, &Y[0][ja], SIZE(NY), link->h[a]);
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
  out->projected = put_back(m->x, m->P, s, 0);
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
