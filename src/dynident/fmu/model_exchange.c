/* Model Exchange: fixed steps between events. Follows stepping.c in the same compiled text; model_exchange_interpreted.py does the
   same arithmetic in the same order. */

#undef TRY
#define TRY(call_, expression) do { Status s_ = (expression); \
    if (BAD(s_)) { bad->call = (call_); bad->status = s_; return 0; } } while (0)

#define MAX_NEWTON_ITERATIONS 25
#define NEWTON_SMALL 1e-10  /* FMU_NEWTON_STEP of tolerances.py */
#define NEWTON_ENOUGH 1e-6  /* FMU_NEWTON_STALLED: where the change no longer falls, what is left is rounding */
#define NEWTON_SIZE 1e-6    /* of a state beside its own, in its unit */
#define MIN_DIFFERENCE 2.2e-13   /* of the change of a step: a smaller move of a state drowns in the rounding of its rate */
#define MAX_EVENTS 10000   /* in one step; more is chattering */
#define MAX_EVENT_ITERATIONS 1000  /* iterations at one event */
#define EVENT_CLOSE 1e-12   /* FMU_EVENT_TIME, of a step: how close a state event is located */
#define MAX_BISECTIONS 60

typedef Status (*Call0)(void *);
typedef Status (*CallTime)(void *, double);
typedef Status (*CallArray)(void *, double *, size_t);
typedef Status (*Completed2)(void *, int, int *, int *);
typedef Status (*Completed3)(void *, unsigned char, unsigned char *, unsigned char *);
typedef struct { int again, terminate, nominals, values, defined; double next; } Info2;
typedef Status (*Discrete2)(void *, Info2 *);
typedef Status (*Discrete3)(void *, unsigned char *, unsigned char *, unsigned char *, unsigned char *, unsigned char *,
                            double *);

typedef struct {
  const Fmu *f;
  const Inputs *c;
  long long k;        /* interval */
  double next_event;  /* time of the next time event, or infinity */
  double *x, *x1, *u, *z0, *z1, *w; /* w: 8 n + (2 n)^2 + 4 n + n^2 numbers of work */
} Exchange;

static int rates(Exchange *m, double now, const double *x, double *dx, Failure *bad) {
  const Fmu *f = m->f;
  TRY(TIME, ((CallTime)f->set_time)(f->instance, now));
  if (f->states) TRY(STATES, ((CallArray)f->set_states)(f->instance, (double *)x, (size_t)f->states));
  if (f->inputs) { input_at(f, m->c, m->k, now, m->u); TRY(SET, put(f, m->u, 0)); }
  if (f->states) TRY(RATES, ((CallArray)f->get_rates)(f->instance, dx, (size_t)f->states));
  return 1;
}

/* classical Runge-Kutta; inputs move linearly inside of the step */
static int runge_kutta(Exchange *m, double now, double h, const double *x, double *next, Failure *bad) {
  const long long n = m->f->states;
  double *k1 = m->w, *k2 = k1 + n, *k3 = k2 + n, *k4 = k3 + n, *s = k4 + n;
  long long i;
  if (!rates(m, now, x, k1, bad)) return 0;
  for (i = 0; i < n; i++) s[i] = x[i] + (0.5 * h) * k1[i];
  if (!rates(m, now + 0.5 * h, s, k2, bad)) return 0;
  for (i = 0; i < n; i++) s[i] = x[i] + (0.5 * h) * k2[i];
  if (!rates(m, now + 0.5 * h, s, k3, bad)) return 0;
  for (i = 0; i < n; i++) s[i] = x[i] + h * k3[i];
  if (!rates(m, now + h, s, k4, bad)) return 0;
  for (i = 0; i < n; i++) next[i] = x[i] + (h / 6.0) * ((k1[i] + k4[i]) + 2.0 * (k2[i] + k3[i]));
  return 1;
}

/* A z = b by elimination with row exchange; b becomes z. A: n x n, row by row. */
static int solve(double *A, double *b, long long n) {
  long long i, j, k;
  for (k = 0; k < n; k++) {
    long long pivot = k;
    for (i = k + 1; i < n; i++) if (fabs(A[i * n + k]) > fabs(A[pivot * n + k])) pivot = i;
    if (!(fabs(A[pivot * n + k]) > 0)) return 0;
    if (pivot != k) {
      double t;
      for (j = k; j < n; j++) { t = A[k * n + j]; A[k * n + j] = A[pivot * n + j]; A[pivot * n + j] = t; }
      t = b[k]; b[k] = b[pivot]; b[pivot] = t;
    }
    for (i = k + 1; i < n; i++) {
      const double factor = A[i * n + k] / A[k * n + k];
      for (j = k + 1; j < n; j++) A[i * n + j] -= factor * A[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (i = n - 1; i >= 0; i--) {
    double s = b[i];
    for (j = i + 1; j < n; j++) s -= A[i * n + j] * b[j];
    b[i] = s / A[i * n + i];
  }
  return 1;
}

/* Radau IIA of order 3 (two stages, L-stable): z1, z2 are the stage increments, found by Newton's method with the
   Jacobian of differences at the begin of the step. */
static int radau(Exchange *m, double now, double h, const double *x, double *next, Failure *bad) {
  const long long n = m->f->states;
  double *f0 = m->w, *g1 = f0 + n, *g2 = g1 + n, *s = g2 + n, *z = s + n, *b = z + 2 * n, *J = b + 2 * n, *A = J + n * n;
  long long i, j;
  double before = INFINITY;
  int iteration;
  if (!rates(m, now, x, f0, bad)) return 0;
  for (i = 0; i < n; i++) s[i] = x[i];
  for (j = 0; j < n; j++) {
    const double move = fmax(1.5e-8 * fmax(fabs(x[j]), 1e-5), MIN_DIFFERENCE * fabs(h * f0[j]));
    s[j] = x[j] + move;
    if (!rates(m, now, s, g1, bad)) return 0;
    for (i = 0; i < n; i++) J[i * n + j] = (g1[i] - f0[i]) / (s[j] - x[j]);
    s[j] = x[j];
  }
  for (i = 0; i < 2 * n; i++) z[i] = 0;
  for (iteration = 0; iteration < MAX_NEWTON_ITERATIONS; iteration++) {
    double change = 0;
    for (i = 0; i < n; i++) s[i] = x[i] + z[i];
    if (!rates(m, now + h / 3.0, s, g1, bad)) return 0;
    for (i = 0; i < n; i++) s[i] = x[i] + z[n + i];
    if (!rates(m, now + h, s, g2, bad)) return 0;
    for (i = 0; i < n; i++) {
      b[i] = h * ((5.0 / 12.0) * g1[i] - (1.0 / 12.0) * g2[i]) - z[i];
      b[n + i] = h * (0.75 * g1[i] + 0.25 * g2[i]) - z[n + i];
      for (j = 0; j < n; j++) {
        const double one = i == j ? 1.0 : 0.0, hj = h * J[i * n + j];
        A[i * 2 * n + j] = one - (5.0 / 12.0) * hj;
        A[i * 2 * n + n + j] = (1.0 / 12.0) * hj;
        A[(n + i) * 2 * n + j] = -0.75 * hj;
        A[(n + i) * 2 * n + n + j] = one - 0.25 * hj;
      }
    }
    if (!finite_all(b, 2 * n) || !solve(A, b, 2 * n)) { bad->call = NEWTON; bad->status = 0; return 0; }
    for (i = 0; i < 2 * n; i++) {
      const double relative = fabs(b[i]) / (NEWTON_SIZE + (fabs(x[i % n]) + fabs(z[i] + b[i])));
      z[i] += b[i];
      if (relative > change) change = relative;
    }
    if (change < NEWTON_SMALL || (change < NEWTON_ENOUGH && change >= before)) {
      for (i = 0; i < n; i++) next[i] = x[i] + z[n + i];
      return 1;
    }
    before = change;
  }
  bad->call = NEWTON;
  bad->status = 0;
  return 0;
}

/* event mode: iterate, leave, and read back what has changed */
static int handle_event(Exchange *m, int enter, const double *u, Failure *bad) {
  const Fmu *f = m->f;
  int count = 0, again = 1, terminate = 0, changed = 0, defined = 0;
  double next = 0;
  if (enter) TRY(EVENT, ((Call0)f->enter_event)(f->instance));
  if (u && f->inputs) TRY(SET, put(f, u, 1));
  while (again) {
    if (f->version == 2) {
      Info2 info;
      memset(&info, 0, sizeof info);
      TRY(DISCRETE, ((Discrete2)f->discrete)(f->instance, &info));
      again = info.again; terminate = info.terminate; changed |= info.values; defined = info.defined; next = info.next;
    } else {
      unsigned char a = 0, t = 0, n = 0, v = 0, d = 0;
      TRY(DISCRETE, ((Discrete3)f->discrete)(f->instance, &a, &t, &n, &v, &d, &next));
      again = a; terminate = t; changed |= v; defined = d;
    }
    if (terminate) { bad->call = TERMINATED; bad->status = 0; return 0; }
    if (++count > MAX_EVENT_ITERATIONS) { bad->call = ENDLESS; bad->status = 0; return 0; }
  }
  TRY(CONTINUOUS, ((Call0)f->enter_continuous)(f->instance));
  m->next_event = defined ? next : INFINITY;
  if (f->states && (changed || !enter))
    TRY(STATES, ((CallArray)f->get_states)(f->instance, m->x, (size_t)f->states));
  if (f->indicators) TRY(INDICATORS, ((CallArray)f->get_indicators)(f->instance, m->z0, (size_t)f->indicators));
  return 1;
}

static int crossed(const Exchange *m) {
  long long i;
  for (i = 0; i < m->f->indicators; i++) if ((m->z0[i] > 0) != (m->z1[i] > 0)) return 1;
  return 0;
}

/* one step of the scheme, and the event indicators at its end */
static int attempt(Exchange *m, int scheme, double now, double h, Failure *bad) {
  const Fmu *f = m->f;
  if (f->states && !(scheme ? radau(m, now, h, m->x, m->x1, bad) : runge_kutta(m, now, h, m->x, m->x1, bad))) return 0;
  if (!finite_all(m->x1, f->states)) {
    bad->call = STATE_NOT_FINITE;
    bad->status = first_bad(m->x1, f->states);
    return 0;
  }
  if (f->indicators || f->needs_completed || m->next_event < INFINITY) {
    TRY(TIME, ((CallTime)f->set_time)(f->instance, now + h));
    if (f->states) TRY(STATES, ((CallArray)f->set_states)(f->instance, m->x1, (size_t)f->states));
    if (f->inputs) { input_at(f, m->c, m->k, now + h, m->u); TRY(SET, put(f, m->u, 0)); }
    if (f->indicators) TRY(INDICATORS, ((CallArray)f->get_indicators)(f->instance, m->z1, (size_t)f->indicators));
  }
  return 1;
}

/* from `now` to `end` inside of interval k, through whatever events lie between */
static int advance(Exchange *m, int scheme, double now, double end, Failure *bad) {
  const Fmu *f = m->f;
  int events = 0;
  while (now < end) {
    double stop = m->next_event < end ? m->next_event : end;
    int event = m->next_event <= end, step_event = 0, terminate = 0;
    if (stop < now) stop = now;
    if (stop > now) {
      double h = stop - now;
      if (!attempt(m, scheme, now, h, bad)) return 0;
      if (f->indicators && crossed(m)) {
        double low = 0, high = h;
        int halvings;
        for (halvings = 0; halvings < MAX_BISECTIONS && high - low > EVENT_CLOSE * h; halvings++) {
          const double middle = 0.5 * (low + high);
          if (!attempt(m, scheme, now, middle, bad)) return 0;
          if (crossed(m)) high = middle; else low = middle;
        }
        if (!attempt(m, scheme, now, high, bad)) return 0;
        stop = now + high;
        event = 1;
      }
      if (f->states) memcpy(m->x, m->x1, sizeof(double) * (size_t)f->states);
      if (f->indicators) memcpy(m->z0, m->z1, sizeof(double) * (size_t)f->indicators);
    }
    now = stop;
    if (f->needs_completed) {
      if (f->version == 2) {
        TRY(COMPLETED, ((Completed2)f->completed)(f->instance, 1, &step_event, &terminate));
      } else {
        unsigned char e = 0, t = 0;
        TRY(COMPLETED, ((Completed3)f->completed)(f->instance, 1, &e, &t));
        step_event = e; terminate = t;
      }
      if (terminate) { bad->call = TERMINATED; bad->status = 0; return 0; }
    }
    if (event || step_event) {
      TRY(TIME, ((CallTime)f->set_time)(f->instance, now));
      if (!handle_event(m, 1, 0, bad)) return 0;
      if (++events > MAX_EVENTS) { bad->call = ENDLESS; bad->status = 0; return 0; }
    }
  }
  return 1;
}

/* the sample itself: its own input, by an event where the input may jump, then the outputs */
static int sample(Exchange *m, long long k, int input_events, double *Y, Failure *bad) {
  const Fmu *f = m->f;
  const double *u = m->c->u_node + k * f->inputs;
  bad->node = k;
  TRY(TIME, ((CallTime)f->set_time)(f->instance, m->c->time[k]));
  if (f->states) TRY(STATES, ((CallArray)f->set_states)(f->instance, m->x, (size_t)f->states));
  if (input_events && k) { if (!handle_event(m, 1, u, bad)) return 0; }
  else if (f->inputs) TRY(SET, put(f, u, 0));
  return observe(f, m->c, k, Y, bad);
}

/* other states than those of initialisation; an FMU whose event indicators they move stands behind its events then */
static int set_first_states(Exchange *m, const double *first, Failure *bad) {
  const Fmu *f = m->f;
  if (!first || !f->states) return 1;
  memcpy(m->x, first, sizeof(double) * (size_t)f->states);
  TRY(STATES, ((CallArray)f->set_states)(f->instance, m->x, (size_t)f->states));
  return !f->indicators || handle_event(m, 1, 0, bad);
}

/* The FMU has left initialisation and stands in event mode. scheme: 0 Runge-Kutta, 1 Radau. first: the continuous states with
   which it begins, or 0 for those of initialisation. */
int dynident_fmu_exchange(const Fmu *f, const Inputs *c, int scheme, int input_events, const double *first, double *Y,
                          Failure *bad) {
  const size_t n = (size_t)f->states, z = (size_t)f->indicators;
  double *room = calloc(2 * n + (size_t)f->inputs + 2 * z + 8 * n + 4 * n * n + n * n + 8, sizeof(double));
  Exchange m;
  long long k;
  int j, done = 0;
  bad->node = 0;
  if (!room) { bad->call = MEMORY; bad->status = 0; return 0; }
  m.f = f; m.c = c; m.k = 0; m.next_event = INFINITY;
  m.x = room; m.x1 = m.x + n; m.u = m.x1 + n; m.z0 = m.u + f->inputs; m.z1 = m.z0 + z; m.w = m.z1 + z;
  if (!handle_event(&m, 0, 0, bad) || !set_first_states(&m, first, bad) || !sample(&m, 0, input_events, Y, bad)) goto out;
  for (k = 0; k + 1 < c->nodes; k++) {
    const double h = (c->time[k + 1] - c->time[k]) / c->substeps[k];
    m.k = k;
    bad->node = k + 1;
    for (j = 0; j < c->substeps[k]; j++) {
      const double from = c->time[k] + j * h, to = j == c->substeps[k] - 1 ? c->time[k + 1] : c->time[k] + (j + 1) * h;
      if ((n || f->indicators || m.next_event < INFINITY) && !advance(&m, scheme, from, to, bad)) goto out;
    }
    if (!sample(&m, k + 1, input_events, Y, bad)) goto out;
  }
  done = 1;
out:
  free(room);
  return done;
}
