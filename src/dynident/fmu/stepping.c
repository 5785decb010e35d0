/* Fmu: drive an initialised FMU along one record in one call.

   Co-Simulation: sub-steps with the input at their midpoint, then one settling step with the input at the sample, then get;
   so outputs at t_k belong to the input at t_k. Model Exchange: fixed steps of a Runge-Kutta or a Radau method between
   events, with state, time and step events. stepping_interpreted.py does the same arithmetic in the same order; both give
   the same bits, which is why no multiplication may be fused with an addition here. */

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Status; /* 0 OK, 1 warning; all else is a failure */
typedef unsigned Ref;

/* Numbers of one type behind some references. column[i] says where in our vector of numbers the i-th stands, or -1. */
typedef struct {
  long long kind, references, values;
  const Ref *reference;
  const long long *column;
  const double *base; /* what is set where column is -1 */
  void *buffer;
  void *call;
  long long event_only; /* inputs that Model Exchange may set in event mode alone: whole numbers, switches, discrete ones */
} Group;

typedef struct {
  void *instance;
  long long version, states, indicators, input_groups, output_groups, inputs, outputs, needs_completed;
  const Group *input, *output;
  void *do_step, *set_time, *set_states, *get_states, *get_rates, *get_indicators, *completed, *enter_event, *discrete,
      *enter_continuous;
} Fmu;

typedef struct {
  long long nodes;
  const double *time;
  const int *substeps;
  const double *u_begin, *u_end, *u_node;
  const unsigned char *wanted;
  long long needed_columns;    /* 0: all outputs must be finite */
  const unsigned char *needed; /* nodes x needed_columns: these must be; columns beyond must be, too */
} Inputs;

enum { SET = 1, GET, STEP, TIME, STATES, RATES, INDICATORS, COMPLETED, EVENT, DISCRETE, CONTINUOUS, TERMINATED, NEWTON,
       NOT_FINITE, STATE_NOT_FINITE, ENDLESS, MEMORY };

typedef struct { long long node, call, status; } Failure; /* status: with the two NOT_FINITE the column or the state */

#define ASKED_TO_END (-1) /* no status of FMI: what a step of 3.0 says beside its status */
#define BAD(s) ((s) > 1 || (s) < 0)
#define TRY(node_, call_, expression) do { Status s_ = (expression); \
    if (BAD(s_)) { bad->node = (node_); bad->call = (call_); bad->status = s_; return 0; } } while (0)

/* The FMU's messages, formatted as it asks, newest kept */
#define LOG_SIZE 65536
static char log_text[LOG_SIZE];
static size_t log_used;
static void keep(const char *text) {
  size_t n = strlen(text);
  if (n > LOG_SIZE / 4) n = LOG_SIZE / 4;
  if (log_used + n + 2 > LOG_SIZE) { memmove(log_text, log_text + LOG_SIZE / 2, log_used - LOG_SIZE / 2); log_used -= LOG_SIZE / 2; }
  memcpy(log_text + log_used, text, n);
  log_used += n;
  log_text[log_used++] = '\n';
  log_text[log_used] = 0;
}
void dynident_fmu_log2(void *environment, const char *name, int status, const char *category, const char *message, ...) {
  char line[4096];
  va_list rest;
  (void)environment; (void)name; (void)category;
  if (!message || status < 1) return;
  va_start(rest, message);
  vsnprintf(line, sizeof line, message, rest);
  va_end(rest);
  keep(line);
}
void dynident_fmu_log3(void *environment, int status, const char *category, const char *message) {
  (void)environment; (void)category;
  if (message && status >= 1) keep(message);
}
const char *dynident_fmu_log(void) { return log_text; }
void dynident_fmu_log_clear(void) { log_used = 0; log_text[0] = 0; }

/* values in and out, whatever their type */

typedef Status (*Access2)(void *, const Ref *, size_t, void *);
typedef Status (*Access3)(void *, const Ref *, size_t, void *, size_t);

static Status access(const Fmu *f, const Group *g) {
  if (f->version == 2) return ((Access2)g->call)(f->instance, g->reference, (size_t)g->references, g->buffer);
  return ((Access3)g->call)(f->instance, g->reference, (size_t)g->references, g->buffer, (size_t)g->values);
}

#define TYPES(X) X(0, double) X(1, float) X(2, int8_t) X(3, uint8_t) X(4, int16_t) X(5, uint16_t) X(6, int32_t) \
  X(7, uint32_t) X(8, int64_t) X(9, uint64_t)

/* inputs; those that are set at events only are left as they are between events */
static Status put(const Fmu *f, const double *u, int at_event) {
  long long k, i;
  Status worst = 0;
  for (k = 0; k < f->input_groups; k++) {
    const Group *g = f->input + k;
    Status s;
    if (g->event_only && !at_event) continue;
#define PUT(code, type) case code: for (i = 0; i < g->values; i++) { \
      const double value = g->column[i] < 0 ? g->base[i] : u[g->column[i]]; \
      ((type *)g->buffer)[i] = (type)(code > 1 ? nearbyint(value) : value); } break; /* whole numbers: the nearest */
    switch (g->kind) { TYPES(PUT) }
    s = access(f, g);
    if (BAD(s)) return s;
    if (s > worst) worst = s;
  }
  return worst;
}

static Status take(const Fmu *f, double *y) {
  long long k, i;
  for (k = 0; k < f->output_groups; k++) {
    const Group *g = f->output + k;
    Status s = access(f, g);
    if (BAD(s)) return s;
#define TAKE(code, type) case code: for (i = 0; i < g->values; i++) \
      if (g->column[i] >= 0) y[g->column[i]] = (double)((type *)g->buffer)[i]; break;
    switch (g->kind) { TYPES(TAKE) }
  }
  return 0;
}

/* place of the first number that is not finite; n where all are */
static long long first_bad(const double *v, long long n) {
  long long i;
  for (i = 0; i < n; i++) if (!isfinite(v[i])) return i;
  return n;
}
static int finite_all(const double *v, long long n) { return first_bad(v, n) == n; }

/* the input at a time inside of interval k */
static void input_at(const Fmu *f, const Inputs *c, long long k, double now, double *u) {
  const double *a = c->u_begin + k * f->inputs, *b = c->u_end + k * f->inputs;
  const double fraction = (now - c->time[k]) / (c->time[k + 1] - c->time[k]);
  long long i;
  for (i = 0; i < f->inputs; i++) u[i] = a[i] + fraction * (b[i] - a[i]);
}

/* Co-Simulation */

typedef Status (*Step2)(void *, double, double, int);
typedef Status (*Step3)(void *, double, double, unsigned char, unsigned char *, unsigned char *, unsigned char *, double *);

static Status step(const Fmu *f, double now, double h) {
  unsigned char event = 0, terminate = 0, early = 0;
  double reached = now;
  Status s;
  if (f->version == 2) return ((Step2)f->do_step)(f->instance, now, h, 1);
  s = ((Step3)f->do_step)(f->instance, now, h, 1, &event, &terminate, &early, &reached);
  return BAD(s) ? s : terminate ? ASKED_TO_END : s;
}

/* one step that ends at `end` and not a rounding beyond */
static Status step_to(const Fmu *f, double *now, double end) {
  double h = end - *now;
  Status s;
  while (*now + h > end) h = nextafter(h, 0.0);
  s = step(f, *now, h);
  *now = end;
  return s;
}

/* the end of a step of about this length that does go on: a time may be so large that adding it changes nothing */
static double past_end(double now, double h) {
  const double end = now + h;
  return end > now ? end : nextafter(now, INFINITY);
}

static int observe(const Fmu *f, const Inputs *c, long long k, double *Y, Failure *bad) {
  double *y = Y + k * f->outputs;
  long long i;
  if (!c->wanted[k]) return 1;
  TRY(k, GET, take(f, y));
  for (i = 0; i < f->outputs; i++) {
    const int needed = i >= c->needed_columns || c->needed[k * c->needed_columns + i];
    if (needed && !isfinite(y[i])) { bad->node = k; bad->call = NOT_FINITE; bad->status = i; return 0; }
  }
  return 1;
}

/* settle_first: length of a settling step at the first sample, 0 for none. settle: fraction of an interval by which a
   settling step with the input of the sample goes past its end, 0 for none; past it and not before, since a solver of
   fixed steps inside makes the whole of its step when its end is reached, and must do so with the input of the way
   there. input_at_end: the last sub-step has the input of the sample at its end. equal: every sub-step of exactly this length, counted from the begin, 0 where the FMU takes any.
   Returns 1, or 0 with the failure. */
int dynident_fmu_cosimulate(const Fmu *f, const Inputs *c, double settle_first, double settle, int input_at_end, double equal,
                            double *Y, Failure *bad) {
  double now = c->time[0], *u = malloc(sizeof(double) * (size_t)(f->inputs + 1));
  long long k, taken = 0;
  int j, done = 0;
#undef TRY
#define TRY(node_, call_, expression) do { Status s_ = (expression); \
    if (BAD(s_)) { bad->node = (node_); bad->call = (call_); bad->status = s_; goto out; } } while (0)
  if (!u) { bad->node = 0; bad->call = MEMORY; bad->status = 0; return 0; }
  if (settle_first > 0) {
    TRY(0, SET, put(f, c->u_node, 1));
    TRY(0, STEP, step_to(f, &now, past_end(now, settle_first)));
  }
  if (!observe(f, c, 0, Y, bad)) goto out;
  for (k = 0; k + 1 < c->nodes; k++) {
    const double end = c->time[k + 1];
    const double h = equal > 0 ? equal : (end - now) / c->substeps[k];
    for (j = 0; j < c->substeps[k]; j++) {
      const int last = j == c->substeps[k] - 1;
      if (last && input_at_end) memcpy(u, c->u_node + (k + 1) * f->inputs, sizeof(double) * (size_t)f->inputs);
      else input_at(f, c, k, now + 0.5 * h, u);
      TRY(k + 1, SET, put(f, u, 1));
      if (equal > 0) { TRY(k + 1, STEP, step(f, now, h)); now = c->time[0] + (double)++taken * h; }
      else TRY(k + 1, STEP, step_to(f, &now, last ? end : now + h));
    }
    if (settle > 0) {
      TRY(k + 1, SET, put(f, c->u_node + (k + 1) * f->inputs, 1));
      TRY(k + 1, STEP, step_to(f, &now, past_end(end, settle * (end - c->time[k]))));
    }
    if (!observe(f, c, k + 1, Y, bad)) goto out;
  }
  done = 1;
out:
  free(u);
  return done;
}
