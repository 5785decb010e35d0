/* Events: integrate all segments of one record of a hybrid model; transitions are located inside of the steps.

   The texts in front of this one are event_location.c and, before it, one that defines NX NU NP NF NY (states, inputs, parameters, free parameters, outputs), NM NT NG
   (modes, transitions, the largest number of transitions out of one mode), the tables COUNT[mode], LEAVING[mode][i]
   (transitions out of a mode), TARGET[transition], and functions of a place in an interval, where s is the time since
   the interval's begin t and the inputs are u + s du:
     STEP[mode]     (t, s0, s1, x, u, du, p) -> x at s1
     STEP_JAC[mode]                          -> x at s1, its derivative by (x, free p, s0, s1)
     GUARDS[mode]   (t, s, x, u, du, p)      -> margins of the transitions out of the mode
     ENTRY[mode]                             -> the same, and their slopes along the flow of the mode
     GUARD_JAC[transition]                   -> margin, its derivative by (x, free p, s)
     RESET[transition], RESET_JAC            -> new x, its derivative by (x, free p, s)
     dyn_possible   (t, x, u, p)             -> per mode 1 where it is possible, else 0
     dyn_out, dyn_out_jac as in propagation.c
   Where ADAPTIVE is 1, steps are those of radau5 and their lengths its choice: radau5_events.c has the step instead of STEP.
   Matrices from these functions stand column by column; S stands row by row.

   Let s* be the time of an event. Its derivative follows from the margin g being zero on the way:
     ds* = -(g_x dx + g_p dp) / (g_x x_s + g_s),
   where dx is the derivative of the state at a fixed time. T is that row for the begin of the current step: zero where
   the step begins on the grid. The same formula serves all steps; the jump of the sensitivities (saltation) is its
   consequence, exact for the discrete scheme. */

/* D <- phi_x S + phi_p + phi_s T for a matrix phi of `rows` rows and NQ + 1 or more columns. */
static void carry(const double *phi, int rows, const double *S, const double *T, double *D) {
  int i, j, l;
  for (i = 0; i < rows; i++) {
    double *row = D + i * NQ;
    const double by_time = phi[i + rows * NQ];
    for (j = 0; j < NX; j++) row[j] = by_time * T[j];
    for (j = NX; j < NQ; j++) row[j] = phi[i + rows * j] + by_time * T[j];
    for (l = 0; l < NX; l++) {
      const double a = phi[i + rows * l];
      if (a == 0) continue;
      for (j = 0; j < NQ; j++) row[j] += a * S[l * NQ + j];
    }
  }
}

#if ADAPTIVE
/* Steps begin anew: those before say nothing about the rates behind. */
static void anew(Place *at) {
  Radau *radau = &at->walk->radau;
  at->walk->modal.mode = at->mode;
  at->walk->modal.p = at->p;
  at->walk->known = at->walk->tried.refused = 0;
  radau->newton.length = radau->h = radau->h_before = 0;
  radau->spare += STEPS_PER_INTERVAL;
}

#define COUNTED 1e-3 /* of an interval: within this time MOST_EVENTS are too many */

/* The end of a step that meets the tolerance, with its stages in at->walk; no number where there is none. */
static double chosen_end(Place *at, double length) {
  Walk *walk = at->walk;
  walk->modal.du = at->du;
  walk->known = 0;
  for (; walk->radau.spare > 0; walk->radau.spare--) {
    const int found = radau_attempt(*at->t, length, at->s, at->x, at->u, at->u_end, &walk->modal, &walk->tried, &walk->radau);
    double s1;
    if (found == LOST_WAY) break;
    if (found == REFUSED) continue;
    s1 = walk->tried.whole ? length : at->s + walk->tried.h;
    walk->tried.h = s1 - at->s; /* as it is rounded */
    walk->from = at->s;
    walk->known = 1;
    at->step = walk->tried.h;
    return s1;
  }
  return NAN;
}
#endif

/* Take a transition at the place where we are; the states and their sensitivities jump. */
static void jump(Place *at, int transition, int sens) {
  double next[NX], by[NX * (NQ + 1)], D[NX * NQ];
  const double *arg[6] = {at->t, &at->s, at->x, at->u, at->du, at->p};
  double *res[2] = {next, by};
  (sens ? RESET_JAC : RESET)[transition](arg, res, 0, 0, 0);
  if (sens) {
    carry(by, NX, at->S, at->T, D);
    memcpy(at->S, D, sizeof D);
  }
  memcpy(at->x, next, sizeof next);
  if (at->mode != TARGET[transition]) memset(at->held, 0, sizeof at->held);
  at->mode = TARGET[transition];
#if ADAPTIVE
  anew(at);
#endif
  at->last = transition;
  at->events++;
}

/* Take transitions until none is enabled. A margin that is positive but about to turn negative does not count: it
   belongs to a border that was just crossed. At a fresh begin a transition back to the same mode counts only while its
   margin grows: a ball that is guessed below the floor bounces if it falls and flies on if it rises. */
static int settle(Place *at, int sens) {
  for (;;) {
    const int mode = at->mode;
    int i, taken = -1;
    if (!finite_all(at->x, NX)) return NOT_FINITE;
    margins(at, at->s, at->x, at->g, at->slope);
    for (i = 0; i < COUNT[mode] && at->fresh; i++) at->held[i] = TARGET[LEAVING[mode][i]] == mode && at->g[i] > 0;
    for (i = 0; i < COUNT[mode] && taken < 0; i++)
      if (at->g[i] > 0 && (at->held[i] ? at->slope[i] > 0 : stays(at, at->g, at->slope, i))) taken = LEAVING[mode][i];
    if (taken < 0) break;
    jump(at, taken, sens);
    if (at->events > MOST_EVENTS) return TOO_MANY;
  }
  at->fresh = 0;
  if (undefined(at, at->g) < 0 || !undefined_behind(at, at->s)) return FINE;
  at->last = undefined(at, at->g);
  return UNDEFINED;
}

/* Where a step ended with margins that count no more: those that are over are ordinary again; 1 where one grows anew. */
static int grows_anew(Place *at) {
  int i, grows = 0;
  for (i = 0; i < COUNT[at->mode]; i++) {
    at->held[i] = at->held[i] && at->g[i] > 0;
    grows = grows || (at->held[i] && at->slope[i] > 0);
  }
  return grows;
}

/* Go to the event at s1, with the sensitivities of its time, and take the transition. */
static int pass(Place *at, double s1, int transition, int sens) {
  double next[NX];
  if (!sens) {
    step_to(at, s1, next, 0);
    memcpy(at->x, next, sizeof next);
  } else {
    double phi[NX * (NQ + 2)], D[NX * NQ], g, by[NQ + 1], row[NQ], speed;
    const double *arg[6] = {at->t, &s1, next, at->u, at->du, at->p};
    double *res[2] = {&g, by};
    const double *by_end = phi + NX * (NQ + 1);
    int i, j;
    static const double still[NQ];
    step_to(at, s1, next, phi);
    carry(phi, NX, at->S, at->T, D);
    GUARD_JAC[transition](arg, res, 0, 0, 0);
    carry(by, 1, D, still, row);
    speed = by[NQ];
    for (i = 0; i < NX; i++) speed += by[i] * by_end[i];
    if (!(fabs(speed) > 0)) return TOUCHED;
    for (j = 0; j < NQ; j++) at->T[j] = -row[j] / speed;
    for (i = 0; i < NX; i++)
      for (j = 0; j < NQ; j++) at->S[i * NQ + j] = D[i * NQ + j] + by_end[i] * at->T[j];
    memcpy(at->x, next, sizeof next);
  }
  at->s = s1;
  jump(at, transition, sens);
  return at->events > MOST_EVENTS ? TOO_MANY : FINE;
}

/* Advance to s1 through all events on the way; where steps are chosen, only to the first of them. */
static int advance(Place *at, double s1, int sens) {
  double next[NX], phi[NX * (NQ + 2)];
  if (!ADAPTIVE) at->events = 0;
  do {
    double low = at->s, high = s1, g_low, g_high, g[NG], slope[NG];
    int which = -1, lost = -1, parts, why, finite;
    step_to(at, s1, next, sens ? phi : 0);
    finite = finite_all(next, NX);
    if (!finite && COUNT[at->mode] == 0) return NOT_FINITE;
    margins(at, s1, next, g, slope);
    if (!finite || undefined(at, g) >= 0) {
      high = brink(at, s1, &which, &g_high, &lost);
      if (!(g_high > 0) && !finite) return NOT_FINITE;
      if (!(g_high > 0) && (high < s1 || undefined_behind(at, s1))) {
        at->s = high;
        at->last = lost;
        return UNDEFINED;
      }
    } else {
      g_high = best_of(at, g, &which);
      if (!(g_high > 0)) high = peak(at, s1, g, slope, &which, &g_high);
    }
    if (!(g_high > 0)) {
      if (sens) {
        double D[NX * NQ];
        carry(phi, NX, at->S, at->T, D);
        memcpy(at->S, D, sizeof D);
        memset(at->T, 0, sizeof at->T);
      }
#if ADAPTIVE
      radau_accept(&at->walk->tried, at->x, &at->walk->radau);
#endif
      memcpy(at->x, next, sizeof next);
      memcpy(at->g, g, sizeof g);
      memcpy(at->slope, slope, sizeof slope);
      at->s = s1;
      return grows_anew(at) ? settle(at, sens) : FINE;
    }
    g_low = best_of(at, at->g, 0);
    for (parts = 1; g_low > 0 && parts <= SMALLEST_PART; parts++) {
      low = at->s + ldexp(high - at->s, -parts);
      g_low = largest_after(at, low, 0);
    }
    if (!(g_low > 0)) low = located(at, low, g_low, high, g_high, &which);
    which = first_at(at, low, which);
    why = pass(at, low, which, sens);
    if (why == FINE) why = settle(at, sens);
    if (why != FINE) return why;
  } while (!ADAPTIVE && at->s < s1);
  if (at->s < s1) return FINE;
  /* the event fell on s1; a step of no length brings the sensitivities from the event's time to s1 */
  if (sens) {
    double D[NX * NQ];
    step_to(at, s1, next, phi);
    carry(phi, NX, at->S, at->T, D);
    memcpy(at->S, D, sizeof D);
    memset(at->T, 0, sizeof at->T);
  }
  return FINE;
}

/* y and dy/d(segment's first state, free p) at one node */
static void observe(const Place *at, const double *t, const double *u, int sens, double *y, double *J) {
  double d[SIZE(NY * NQ)];
  const double *arg[4] = {t, at->x, u, at->p};
  double *res[2] = {y, d};
  int i, j, l;
  if (!sens) { dyn_out(arg, res, 0, 0, 0); return; }
  dyn_out_jac(arg, res, 0, 0, 0);
  for (i = 0; i < NY; i++) {
    double *row = J + i * NQ;
    for (j = 0; j < NX; j++) row[j] = 0;
    for (j = NX; j < NQ; j++) row[j] = d[i + NY * j];
    for (l = 0; l < NX; l++)
      for (j = 0; j < NQ; j++) row[j] += d[i + NY * l] * at->S[l * NQ + j];
  }
}

/* Whether a segment begins where the one before it ended; `largest` is the size of each state at all nodes. */
static int continues(const double *x, const double *end, const double *largest) {
  int i;
  for (i = 0; i < NX; i++) if (!(fabs(x[i] - end[i]) <= MET * largest[i])) return 0;
  return 1;
}

/* The mode in which a segment begins that continues none: that of the segment before it where it is possible, else the
   first possible one, else that of the segment before it again: its state is a guess, and need not be one that the
   system can have. */
static int begin_in(int before, const double *t, const double *x, const double *u, const double *p) {
  double possible[NM];
  const double *arg[4] = {t, x, u, p};
  double *res[1] = {possible};
  int m;
  dyn_possible(arg, res, 0, 0, 0);
  if (before >= 0 && possible[before] > 0.5) return before;
  for (m = 0; m < NM; m++) if (possible[m] > 0.5) return m;
  return before;
}

/* One interval between samples; `mode` is the one that holds from its begin on. */
static int interval(Place *at, double length, int count, int sens, int *mode) {
  int m, why;
  at->s = 0;
  at->step = length / count;
  at->events = 0;
  memset(at->T, 0, sizeof at->T);
#if ADAPTIVE
  at->walk->modal.du = at->du;
  at->counted = 0;
  radau_enter(at->x, &at->walk->radau);
  (void)m;
#endif
  why = settle(at, sens);
  *mode = at->mode;
#if ADAPTIVE
  while (why == FINE && at->s < length) {
    const double s1 = chosen_end(at, length);
    if (!(s1 > at->s)) return NO_STEP;
    why = advance(at, s1, sens);
    if (at->s > at->counted + COUNTED * length) { at->counted = at->s; at->events = 0; }
  }
#else
  for (m = 1; m <= count && why == FINE; m++) why = advance(at, m == count ? length : m * at->step, sens);
#endif
  return why;
}

/* A record as propagation.c takes it, and where its results go; M are the modes that hold from each node on. */
typedef struct {
  const double *t;
  const int *substeps;
  const double *u_begin, *u_end, *u_node;
  const unsigned char *wanted;
  double *X, *Y, *J;
  int *M;
} Record;

/* Keep state, mode and outputs at node k. */
static int keep(const Place *at, const Record *r, long long k, int sens) {
  double *y = r->Y + k * NY, *J = r->J + k * NY * NQ;
  memcpy(r->X + k * NX, at->x, sizeof at->x);
  r->M[k] = at->mode;
  if (!r->wanted[k]) return FINE;
  observe(at, r->t + k, r->u_node + k * NU, sens, y, J);
  return finite_all(y, NY) && (!sens || finite_all(J, NY * NQ)) ? FINE : NOT_FINITE;
}

/* From node *k on to node `last`, whose results belong to the next segment unless `final`. */
static int segment(Place *at, const Record *r, long long *k, long long last, int final, int sens) {
  double du[SIZE(NU)];
  int a, why;
  for (a = 0; a < NX * NQ; a++) at->S[a] = a / NQ == a % NQ;
#if ADAPTIVE
  radau_begin(&at->walk->radau);
  anew(at);
#endif
  for (;; ++*k) {
    int jumped = 0;
    const double length = *k < last ? r->t[*k + 1] - r->t[*k] : 0;
    at->t = r->t + *k;
    at->s = 0;
    if (!finite_all(at->x, NX)) return NOT_FINITE;
    if (*k < last || final) {
      why = keep(at, r, *k, sens);
      if (why != FINE) return why;
    }
    if (*k == last) return FINE;
    at->u = r->u_begin + *k * NU;
    at->du = du;
    for (a = 0; a < NU; a++) du[a] = (r->u_end[*k * NU + a] - r->u_begin[*k * NU + a]) / length;
#if ADAPTIVE
    at->u_end = r->u_end + *k * NU;
    for (a = 0; a < NU; a++) jumped = jumped || (*k > 0 && at->u[a] != r->u_end[(*k - 1) * NU + a]);
    if (jumped) at->walk->radau.newton.length = 0; /* as in propagation.c */
#endif
    why = interval(at, length, r->substeps[*k], sens, r->M + *k);
    if (why != FINE) return why;
  }
}

/* Returns -1, or the node at which it ended early, with the reason in report: why, time, last transition.
   Segments and nodes are those of propagation.c; `first_mode` is the mode at the record's begin or -1. */
long long dynident_events(long long segments, const long long *first, const double *t, const int *substeps,
                          const double *u_begin, const double *u_end, const double *u_node, const double *p,
                          const double *nodes, const unsigned char *wanted, int first_mode, int sens,
                          double *X, double *Y, double *J, double *X_end, double *S_end, int *M, double *report) {
  const Record r = {t, substeps, u_begin, u_end, u_node, wanted, X, Y, J, M};
  Place at;
  double largest[NX] = {0};
  long long i, k;
#if ADAPTIVE
  Walk walk;
  double *work = malloc(sizeof(double) * RADAU_WORK);
  if (!work) { report[0] = NOT_FINITE; report[1] = *t; report[2] = -1; return 0; }
  radau_memory(&walk.radau, work);
  at.walk = &walk;
#endif
  at.p = p;
  at.mode = at.last = -1;
  for (i = 0; i < segments * NX; i++) largest[i % NX] = fmax(largest[i % NX], fabs(nodes[i]));
  for (i = 0; i < segments; i++) {
    const int on = i > 0 && continues(nodes + i * NX, at.x, largest);
    int why;
    k = first[i];
    at.t = t + k;
    at.s = 0;
    at.fresh = i > 0 && !on;
    memset(at.held, 0, sizeof at.held);
    memcpy(at.x, nodes + i * NX, sizeof at.x);
    if (!on) at.mode = i == 0 && first_mode >= 0 ? first_mode : begin_in(at.mode, at.t, at.x, u_node + k * NU, p);
    why = at.mode < 0 ? NO_MODE : segment(&at, &r, &k, first[i + 1], i == segments - 1, sens);
    if (why != FINE) {
      report[0] = why;
      report[1] = *at.t + at.s;
      report[2] = at.last;
      break;
    }
    memcpy(X_end + i * NX, at.x, sizeof at.x);
    if (sens) memcpy(S_end + i * NX * NQ, at.S, sizeof at.S);
  }
#if ADAPTIVE
  free(work);
#endif
  return i < segments ? k : -1;
}
