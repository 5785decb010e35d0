/* Event location: where inside of a step does a transition begin to hold? The first half of events.c, which says what stands
   in front of it. */

#include <math.h>
#include <string.h>

#if !ADAPTIVE
#define NQ (NX + NF)
#define SIZE(n) ((n) > 0 ? (n) : 1)
#endif
#define MOST_EVENTS 100     /* in one step; more means that the transitions leave no time between them */
#define SETTLED 1e-14       /* of a step: how closely an event is located */
#define AT_ONCE 1e-9        /* of a step: what changes sign within this time does so now: it is the border just crossed,
                               or begins to hold together with another condition */
#define MOST_LOOKS 200      /* when locating one event; bisection alone needs 50 */
#define MET 1e-6            /* of a state's size: segments that end and begin this close follow one motion, in one mode */
#define SMALLEST_PART 45    /* halvings of a step in search of a place before the event */

enum { FINE = 0, NOT_FINITE = 1, TOO_MANY = 2, NO_MODE = 3, TOUCHED = 4, UNDEFINED = 5, NO_STEP = 6 };

typedef struct {
  const double *t, *u, *du, *p; /* of the interval */
  double s, step;               /* where in it, and the length of a whole step */
  int mode, events, last;       /* last: the transition taken last, or the one whose condition is no number */
  int fresh;                    /* a segment begins here whose state is a guess: no motion has led to it */
  double x[NX], S[NX * NQ], T[NQ];
  double g[NG], slope[NG];      /* margins of the transitions out of the mode, and how fast they grow */
  unsigned char held[NG];       /* transitions back to the mode itself whose condition held at a fresh begin */
#if ADAPTIVE
  const double *u_end;          /* inputs at the end of the interval */
  Walk *walk;                   /* the steps of radau5, and the mode in which they are */
  double counted;               /* since where in the interval events are counted */
#endif
} Place;

#if ADAPTIVE
static void step_to(const Place *at, double s1, double *next, double *phi) {
  modal_step(*at->t, at->s, s1, at->x, at->u, at->du, at->walk, next, phi);
}
#else
static int finite_all(const double *v, int n) {
  int i;
  for (i = 0; i < n; i++) if (!isfinite(v[i])) return 0;
  return 1;
}

static void step_to(const Place *at, double s1, double *next, double *phi) {
  const double *arg[7] = {at->t, &at->s, &s1, at->x, at->u, at->du, at->p};
  double *res[2] = {next, phi};
  (phi ? STEP_JAC : STEP)[at->mode](arg, res, 0, 0, 0);
}
#endif

static void margins(const Place *at, double s, const double *x, double *g, double *slope) {
  const double *arg[6] = {at->t, &s, x, at->u, at->du, at->p};
  double *res[2] = {g, slope};
  ENTRY[at->mode](arg, res, 0, 0, 0);
}

/* The largest of the margins that count, and which of the mode's transitions has it. */
static double best_of(const Place *at, const double *g, int *which) {
  int i, best = -1;
  if (COUNT[at->mode] == 0) return -1;
  for (i = 0; i < COUNT[at->mode]; i++)
    if (!at->held[i] && !isnan(g[i]) && (best < 0 || g[i] > g[best])) best = i;
  if (which && best >= 0) *which = LEAVING[at->mode][best];
  return best < 0 ? -INFINITY : g[best];
}

/* The first transition whose margin is no number, or -1. */
static int undefined(const Place *at, const double *g) {
  int i;
  for (i = 0; i < COUNT[at->mode]; i++) if (isnan(g[i])) return LEAVING[at->mode][i];
  return -1;
}

/* Margins after a step to s1; no numbers where the step does not lead to a finite state. */
static void margins_after(const Place *at, double s1, double *g) {
  double next[NX];
  const double *arg[6] = {at->t, &s1, next, at->u, at->du, at->p};
  double *res[1] = {g};
  int i;
  step_to(at, s1, next, 0);
  GUARDS[at->mode](arg, res, 0, 0, 0);
  if (!finite_all(next, NX)) for (i = 0; i < COUNT[at->mode]; i++) g[i] = NAN;
}

static double largest_after(const Place *at, double s1, int *which) {
  double g[NG];
  margins_after(at, s1, g);
  return best_of(at, g, which);
}

/* Whether a margin that is no number at s is none just behind it either: x/t at t = 0 is one, sqrt(x) on its way down
   is not. */
static int undefined_behind(const Place *at, double s) {
  double g[NG];
  margins_after(at, s + AT_ONCE * at->step, g);
  return undefined(at, g) >= 0;
}

/* Whether the margin of the mode's transition i is positive from now on. */
static int stays(const Place *at, const double *g, const double *slope, int i) {
  return g[i] + AT_ONCE * at->step * slope[i] > 0;
}

/* Between `low` (no margin positive) and `high` (one is): the earliest place found just behind a crossing. By false
   position with halved weights (Illinois), and a bisection wherever three looks did not halve the bracket. */
static double located(const Place *at, double low, double g_low, double high, double g_high, int *which) {
  const double close = SETTLED * at->step;
  double before = high - low;
  int look, side = 0;
  for (look = 0; look < MOST_LOOKS && high - low > close; look++) {
    double s, g;
    int found;
    if (look % 3 == 2 && high - low > 0.5 * before) s = 0.5 * (low + high);
    else s = high - (high - low) * g_high / (g_high - g_low);
    if (look % 3 == 2) before = high - low;
    if (!(s > low && s < high)) s = 0.5 * (low + high);
    if (!(s > low && s < high)) break; /* neighbouring numbers */
    g = largest_after(at, s, &found);
    if (g > 0) {
      if (side > 0) g_low *= 0.5;
      high = s; g_high = g; *which = found; side = 1;
    } else {
      if (side < 0) g_high *= 0.5;
      low = s; g_low = g < 0 ? g : 0; side = -1;
    }
  }
  return high;
}

/* A place inside of a step at which a margin is positive though it is not at the ends, or s1 where there is none. Only
   a margin that grows at the begin and falls at the end can be; the cubic through both ends says where to look. */
static double peak(const Place *at, double s1, const double *g1, const double *slope1, int *which, double *g) {
  const double h = s1 - at->s;
  int i;
  for (i = 0; i < COUNT[at->mode]; i++) {
    const double d0 = h * at->slope[i], d1 = h * slope1[i], rise = g1[i] - at->g[i];
    const double a = 3 * (d0 + d1 - 2 * rise), b = 2 * (3 * rise - 2 * d0 - d1); /* slope = a z^2 + b z + d0 */
    double z, s;
    if (at->held[i] || !(d0 > 0 && d1 < 0)) continue;
    z = 2 * d0 / (sqrt(b * b - 4 * a * d0) - b); /* its only zero between the ends */
    if (!(z > 0 && z < 1)) continue;
    s = at->s + z * h;
    *g = largest_after(at, s, which);
    if (*g > 0) return s;
  }
  return s1;
}

/* Margins are no numbers at s1: by halving, a place before at which one is positive, or else the last before which all
   are numbers, with the largest margin there and the transition that is lost. */
static double brink(const Place *at, double s1, int *which, double *largest, int *lost) {
  double low = at->s, high = s1, g[NG];
  while (high - low > SETTLED * at->step) {
    const double s = 0.5 * (low + high);
    if (!(s > low && s < high)) break; /* neighbouring numbers */
    margins_after(at, s, g);
    *largest = best_of(at, g, which);
    if (undefined(at, g) >= 0) high = s;
    else if (*largest > 0) return s;
    else low = s;
  }
  margins_after(at, high, g);
  *lost = undefined(at, g);
  *largest = best_of(at, g, which);
  return high;
}

/* Of the transitions whose conditions begin to hold together at s, the one that stands first. */
static int first_at(const Place *at, double s, int otherwise) {
  double next[NX], g[NG], slope[NG];
  int i;
  step_to(at, s, next, 0);
  margins(at, s, next, g, slope);
  for (i = 0; i < COUNT[at->mode]; i++)
    if (!at->held[i] && stays(at, g, slope, i)) return LEAVING[at->mode][i];
  return otherwise;
}

