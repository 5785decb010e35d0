/* Directional derivatives: Model Exchange by Runge-Kutta together with the derivatives of states and outputs by
   parameters and initial states, where the FMU gives directional derivatives. Follows model_exchange.c in the same
   compiled text; directional_interpreted.py does the same arithmetic in the same order.

   S_j' = (df/dx) S_j + df/dp_j by the same scheme: the derivative of what the scheme computes, to rounding. No events:
   where one comes, the derivative jumps in a way that the FMU does not tell. */

enum { GAVE_UP = MEMORY + 1, EVENTFUL, DIRECTIONAL }; /* the first is of the loop in Python */

typedef Status (*Derivative2)(void *, const Ref *, size_t, const Ref *, size_t, const double *, double *);
typedef Status (*Derivative3)(void *, const Ref *, size_t, const Ref *, size_t, const double *, size_t, double *, size_t);

typedef struct {
  long long columns;
  const Ref *states, *rates, *outputs;
  const Ref *by;            /* per column the reference of the parameter */
  const long long *initial; /* per column the state whose begin it is, -1 for a parameter */
  void *derivative;
} Directions;

/* derivative of `unknown` (n of them) along column j: along the states by S_j, and along the parameter by 1 */
static int along(Exchange *m, const Directions *s, const Ref *unknown, long long n, long long j, const double *S_j,
                 const Ref *known, double *seed, double *result, Failure *bad) {
  const Fmu *f = m->f;
  const long long states = f->states;
  const size_t width = (size_t)(states + (s->initial[j] < 0));
  memcpy(seed, S_j, sizeof(double) * (size_t)states);
  seed[states] = 1;
  ((Ref *)known)[states] = s->by[j];
  if (!n) return 1;
  if (!width) { memset(result, 0, sizeof(double) * (size_t)n); return 1; }
  if (f->version == 2)
    TRY(DIRECTIONAL, ((Derivative2)s->derivative)(f->instance, unknown, (size_t)n, known, width, seed, result));
  else
    TRY(DIRECTIONAL, ((Derivative3)s->derivative)(f->instance, unknown, (size_t)n, known, width, seed, width, result, (size_t)n));
  return 1;
}

/* one Runge-Kutta step of x and of all columns of S; K and s_stage: 4 and 1 times columns * n numbers */
static int step_with_derivatives(Exchange *m, const Directions *s, double now, double h, double *S, double *K, double *stage,
                            const Ref *known, double *seed, Failure *bad) {
  static const double share[4] = {0, 0.5, 0.5, 1};
  const long long n = m->f->states, size = n * s->columns;
  double *k = m->w, *x = m->w + 4 * n;
  long long i, j;
  int a;
  for (a = 0; a < 4; a++) {
    for (i = 0; i < n; i++) x[i] = a ? m->x[i] + (share[a] * h) * k[(a - 1) * n + i] : m->x[i];
    for (i = 0; i < size; i++) stage[i] = a ? S[i] + (share[a] * h) * K[(a - 1) * size + i] : S[i];
    if (!rates(m, now + share[a] * h, x, k + a * n, bad)) return 0;
    for (j = 0; j < s->columns; j++)
      if (!along(m, s, s->rates, n, j, stage + j * n, known, seed, K + a * size + j * n, bad)) return 0;
  }
  for (i = 0; i < n; i++) m->x[i] += (h / 6.0) * ((k[i] + k[3 * n + i]) + 2.0 * (k[n + i] + k[2 * n + i]));
  for (i = 0; i < size; i++)
    S[i] += (h / 6.0) * ((K[i] + K[3 * size + i]) + 2.0 * (K[size + i] + K[2 * size + i]));
  if (!finite_all(m->x, n) || !finite_all(S, size)) {
    bad->call = STATE_NOT_FINITE;
    bad->status = first_bad(m->x, n); /* n: a derivative */
    return 0;
  }
  return 1;
}

/* Y: nodes x outputs; D: nodes x columns x outputs */
int dynident_fmu_directional(const Fmu *f, const Inputs *c, const Directions *s, double *Y, double *D, Failure *bad) {
  const size_t n = (size_t)f->states, width = n * (size_t)s->columns;
  double *room = calloc(2 * n + (size_t)f->inputs + 8 * n + 6 * width + n + 9, sizeof(double));
  Ref *known = calloc(n + 1, sizeof(Ref));
  double *S, *K, *stage, *seed;
  Exchange m;
  long long k, j;
  int i, done = 0;
  bad->node = 0;
  if (!room || !known) { bad->call = MEMORY; bad->status = 0; goto out; }
  memset(&m, 0, sizeof m);
  m.f = f; m.c = c; m.next_event = INFINITY;
  m.x = room; m.x1 = m.x + n; m.u = m.x1 + n; m.w = m.u + f->inputs;
  S = m.w + 8 * n; K = S + width; stage = K + 4 * width; seed = stage + width;
  memcpy(known, s->states, n * sizeof(Ref));
  if (!handle_event(&m, 0, 0, bad)) goto out;
  for (j = 0; j < s->columns; j++) if (s->initial[j] >= 0) S[(size_t)j * n + (size_t)s->initial[j]] = 1;
  for (k = 0; k < c->nodes; k++) {
    bad->node = k;
    if (m.next_event <= c->time[k]) { bad->call = EVENTFUL; bad->status = 0; goto out; }
    if (!sample(&m, k, 0, Y, bad)) goto out;
    for (j = 0; c->wanted[k] && j < s->columns; j++)
      if (!along(&m, s, s->outputs, f->outputs, j, S + (size_t)j * n, known, seed,
                 D + (k * s->columns + j) * f->outputs, bad)) goto out;
    if (k + 1 == c->nodes) break;
    m.k = k;
    bad->node = k + 1;
    for (i = 0; n && i < c->substeps[k]; i++) {
      const double h = (c->time[k + 1] - c->time[k]) / c->substeps[k];
      if (!step_with_derivatives(&m, s, c->time[k] + i * h, h, S, K, stage, known, seed, bad)) goto out;
    }
  }
  done = 1;
out:
  free(room);
  free(known);
  return done;
}
