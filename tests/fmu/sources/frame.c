/* Frame: the functions of FMI 2.0 or 3.0 around a model of a test, with the headers of the standard as FMPy ships them.

   A model's text comes before this one and defines NX, NZ, NV (numbers in v), SOLVER_STEP, AT[] and LENGTH[] (place and
   size of the numbers behind each reference), STATE[] and RATE[] (places), and
     start(m)              values at the begin
     compute(m)            rates and outputs from the rest
     indicators(m, z)
     event(m, &next, &end) 1 where states changed; sets the time of the next time event and asks for the end
     step_event(m)         1 where a step asks for an event
     slope(m, unknown, known, &value)  1 where the derivative of one place by another is known
   All numbers are doubles here, whatever their type outside. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double next_of(Model *m, int *changed, int *end) {
  double next = INFINITY;
  *end = 0;
  *changed = event(m, &next, end);
  return next;
}

#ifdef ADAPTIVE
/* Heun's method with Euler's inside and steps of its own, as long as the tolerance of the experiment lets them be; no events */
static int advance(Model *m, double until) {
  double k1[NX + 1], x[NX + 1], error;
  int i;
  while (m->time < until) {
    double h = m->step > 0 ? m->step : 1e-3;
    if (h > until - m->time) h = until - m->time;
    compute(m);
    for (i = 0; i < NX; i++) { x[i] = m->v[STATE[i]]; k1[i] = m->v[RATE[i]]; m->v[STATE[i]] = x[i] + h * k1[i]; }
    compute(m);
    for (error = 0, i = 0; i < NX; i++) {
      const double e = 0.5 * h * fabs(m->v[RATE[i]] - k1[i]) / (m->tolerance * (1e-2 + fabs(x[i])));
      if (e > error) error = e;
      m->v[STATE[i]] = x[i] + 0.5 * h * (k1[i] + m->v[RATE[i]]);
    }
    m->step = h * fmin(2.0, fmax(0.2, 0.9 / sqrt(error + 1e-9)));
    if (error <= 1 || h < 1e-9) m->time += h;
    else for (i = 0; i < NX; i++) m->v[STATE[i]] = x[i];
    if (until - m->time < 1e-12 * (1 + fabs(until))) m->time = until;
  }
  compute(m);
  return 1;
}
#else
/* explicit Euler with steps of its own, as many as end before or at the communication point: what a caller asks for in
   between is answered with the last one */
static int advance(Model *m, double until) {
  while (m->steps * SOLVER_STEP + SOLVER_STEP <= until - m->begin + 1e-9 * SOLVER_STEP) {
    double before[NZ + 1], after[NZ + 1], next;
    int i, crossed = 0, changed, end;
    compute(m);
    indicators(m, before);
    for (i = 0; i < NX; i++) m->v[STATE[i]] += SOLVER_STEP * m->v[RATE[i]];
    m->steps++;
    m->time = m->begin + m->steps * SOLVER_STEP;
    compute(m);
    indicators(m, after);
    for (i = 0; i < NZ; i++) crossed |= (before[i] > 0) != (after[i] > 0);
    if (crossed || m->time >= m->next_event) { next = next_of(m, &changed, &end); m->next_event = next; if (end) return 0; }
  }
  return 1;
}

#endif

static int directional(Model *m, const unsigned *unknown, size_t rows, const unsigned *known, size_t columns,
                       const double *seed, double *result) {
  size_t i, j;
  for (i = 0; i < rows; i++) {
    result[i] = 0;
    for (j = 0; j < columns; j++) {
      double value = 0;
      if (!slope(m, AT[unknown[i]], AT[known[j]], &value)) return 0;
      result[i] += value * seed[j];
    }
  }
  return 1;
}

static Model *made(void) {
  Model *m = calloc(1, sizeof(Model));
  if (m) { start(m); m->next_event = INFINITY; }
  return m;
}
#define M ((Model *)c)

/* values of one type; outer is the type outside. In continuous-time mode only real inputs may be set. */
#define NOT_AT_ONCE if (M->continuous) return WRONG;
#define TEXT { size_t i; for (i = 0; i < n; i++) M->v[AT[r[i]]] = (double)strlen(values[i]); } /* a text counts by its length */
#define READ(outer) { size_t i, j, k = 0; compute(M); for (i = 0; i < n; i++) \
    for (j = 0; j < (size_t)LENGTH[r[i]]; j++) values[k++] = (outer)M->v[AT[r[i]] + (int)j]; }
#define WRITE { size_t i, j, k = 0; for (i = 0; i < n; i++) \
    for (j = 0; j < (size_t)LENGTH[r[i]]; j++) M->v[AT[r[i]] + (int)j] = (double)values[k++]; }

#if FMI == 2
#include "fmi2Functions.h"
#define STATUS fmi2Status
#define GOOD fmi2OK
#define WRONG fmi2Error
#define F(name) fmi2##name
#define fmi2RATES fmi2GetDerivatives

const char *fmi2GetTypesPlatform(void) { return "default"; }
const char *fmi2GetVersion(void) { return "2.0"; }
fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String names[]) { return fmi2OK; }
fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String token, fmi2String where,
                              const fmi2CallbackFunctions *functions, fmi2Boolean visible, fmi2Boolean logging) {
  return strcmp(token, TOKEN) ? NULL : made();
}
void fmi2FreeInstance(fmi2Component c) { free(c); }
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean td, fmi2Real tol, fmi2Real begin, fmi2Boolean sd, fmi2Real stop) {
  M->time = M->begin = begin;
  M->tolerance = td ? tol : 1e-4;
  M->stop = sd ? stop : INFINITY;
  return fmi2OK;
}
fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2ExitInitializationMode(fmi2Component c) {
  int changed, end;
  M->next_event = next_of(M, &changed, &end);
  return fmi2OK;
}
fmi2Status fmi2Terminate(fmi2Component c) { return fmi2OK; }
fmi2Status fmi2Reset(fmi2Component c) { memset(c, 0, sizeof(Model)); start(M); M->next_event = INFINITY; return fmi2OK; }
fmi2Status fmi2GetReal(fmi2Component c, const unsigned r[], size_t n, fmi2Real values[]) { READ(double) return fmi2OK; }
fmi2Status fmi2GetInteger(fmi2Component c, const unsigned r[], size_t n, fmi2Integer values[]) { READ(int) return fmi2OK; }
fmi2Status fmi2GetBoolean(fmi2Component c, const unsigned r[], size_t n, fmi2Boolean values[]) { READ(int) return fmi2OK; }
fmi2Status fmi2GetString(fmi2Component c, const unsigned r[], size_t n, fmi2String values[]) { return fmi2Error; }
fmi2Status fmi2SetReal(fmi2Component c, const unsigned r[], size_t n, const fmi2Real values[]) { WRITE return fmi2OK; }
fmi2Status fmi2SetInteger(fmi2Component c, const unsigned r[], size_t n, const fmi2Integer values[]) { NOT_AT_ONCE WRITE return fmi2OK; }
fmi2Status fmi2SetBoolean(fmi2Component c, const unsigned r[], size_t n, const fmi2Boolean values[]) { NOT_AT_ONCE WRITE return fmi2OK; }
fmi2Status fmi2SetString(fmi2Component c, const unsigned r[], size_t n, const fmi2String values[]) { TEXT return fmi2OK; }
fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const unsigned u[], size_t nu, const unsigned k[], size_t nk,
                                        const fmi2Real seed[], fmi2Real result[]) {
  return directional(M, u, nu, k, nk, seed, result) ? fmi2OK : fmi2Error;
}
fmi2Status fmi2EnterEventMode(fmi2Component c) { M->continuous = 0; return fmi2OK; }
fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *info) {
  int changed, end;
  const double next = next_of(M, &changed, &end);
  memset(info, 0, sizeof *info);
  info->valuesOfContinuousStatesChanged = changed;
  info->terminateSimulation = end;
  info->nextEventTimeDefined = next < INFINITY;
  info->nextEventTime = next;
  return fmi2OK;
}
fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { M->continuous = 1; return fmi2OK; }
fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean keep, fmi2Boolean *enter, fmi2Boolean *end) {
  *enter = step_event(M);
  *end = 0;
  return fmi2OK;
}
fmi2Status fmi2GetBooleanStatus(fmi2Component c, const fmi2StatusKind kind, fmi2Boolean *value) {
  *value = kind == fmi2Terminated;
  return fmi2OK;
}
fmi2Status fmi2DoStep(fmi2Component c, fmi2Real now, fmi2Real h, fmi2Boolean keep) {
  if (now + h > M->stop * (1 + 1e-12)) return fmi2Error;
  if (!advance(M, now + h)) return fmi2Discard;
  return fmi2OK;
}
#else
#include "fmi3Functions.h"
#define STATUS fmi3Status
#define GOOD fmi3OK
#define WRONG fmi3Error
#define F(name) fmi3##name
#define fmi3RATES fmi3GetContinuousStateDerivatives

const char *fmi3GetVersion(void) { return "3.0"; }
fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String where, fmi3Boolean visible,
    fmi3Boolean logging, fmi3InstanceEnvironment environment, fmi3LogMessageCallback log) {
  return strcmp(token, TOKEN) ? NULL : made();
}
fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String where, fmi3Boolean visible,
    fmi3Boolean logging, fmi3Boolean events, fmi3Boolean early, const fmi3ValueReference required[], size_t n,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, fmi3IntermediateUpdateCallback update) {
  return strcmp(token, TOKEN) ? NULL : made();
}
void fmi3FreeInstance(fmi3Instance c) { free(c); }
fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String names[]) { return fmi3OK; }
fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean td, fmi3Float64 tol, fmi3Float64 begin, fmi3Boolean sd,
                                       fmi3Float64 stop) {
  M->time = M->begin = begin;
  M->tolerance = td ? tol : 1e-4;
  M->stop = sd ? stop : INFINITY;
  return fmi3OK;
}
fmi3Status fmi3ExitInitializationMode(fmi3Instance c) {
  int changed, end;
  M->next_event = next_of(M, &changed, &end);
  return fmi3OK;
}
fmi3Status fmi3EnterEventMode(fmi3Instance c) { M->continuous = 0; return fmi3OK; }
fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance c) { M->continuous = 1; return fmi3OK; }
fmi3Status fmi3EnterStepMode(fmi3Instance c) { return fmi3OK; }
fmi3Status fmi3EnterConfigurationMode(fmi3Instance c) { return fmi3OK; }
fmi3Status fmi3ExitConfigurationMode(fmi3Instance c) { return fmi3OK; }
fmi3Status fmi3Terminate(fmi3Instance c) { return fmi3OK; }
fmi3Status fmi3Reset(fmi3Instance c) { memset(c, 0, sizeof(Model)); start(M); M->next_event = INFINITY; return fmi3OK; }
fmi3Status fmi3SetString(fmi3Instance c, const fmi3ValueReference r[], size_t n, const fmi3String values[], size_t m) { TEXT return fmi3OK; }
#define ACCESS(name, type, when) \
  fmi3Status fmi3Get##name(fmi3Instance c, const fmi3ValueReference r[], size_t n, type values[], size_t m) { READ(type) return fmi3OK; } \
  fmi3Status fmi3Set##name(fmi3Instance c, const fmi3ValueReference r[], size_t n, const type values[], size_t m) { when WRITE return fmi3OK; }
ACCESS(Float64, fmi3Float64, ) ACCESS(Float32, fmi3Float32, ) ACCESS(Int8, fmi3Int8, NOT_AT_ONCE)
ACCESS(UInt8, fmi3UInt8, NOT_AT_ONCE) ACCESS(Int16, fmi3Int16, NOT_AT_ONCE) ACCESS(UInt16, fmi3UInt16, NOT_AT_ONCE)
ACCESS(Int32, fmi3Int32, NOT_AT_ONCE) ACCESS(UInt32, fmi3UInt32, NOT_AT_ONCE) ACCESS(Int64, fmi3Int64, NOT_AT_ONCE)
ACCESS(UInt64, fmi3UInt64, NOT_AT_ONCE) ACCESS(Boolean, fmi3Boolean, NOT_AT_ONCE)
fmi3Status fmi3GetDirectionalDerivative(fmi3Instance c, const fmi3ValueReference u[], size_t nu, const fmi3ValueReference k[],
    size_t nk, const fmi3Float64 seed[], size_t ns, fmi3Float64 result[], size_t nr) {
  return ns == nk && nr == nu && directional(M, u, nu, k, nk, seed, result) ? fmi3OK : fmi3Error;
}
fmi3Status fmi3UpdateDiscreteStates(fmi3Instance c, fmi3Boolean *again, fmi3Boolean *end, fmi3Boolean *nominals,
                                    fmi3Boolean *values, fmi3Boolean *defined, fmi3Float64 *next) {
  int changed, over;
  *next = next_of(M, &changed, &over);
  *again = *nominals = 0;
  *values = changed; *end = over; *defined = *next < INFINITY;
  return fmi3OK;
}
fmi3Status fmi3CompletedIntegratorStep(fmi3Instance c, fmi3Boolean keep, fmi3Boolean *enter, fmi3Boolean *end) {
  *enter = step_event(M);
  *end = 0;
  return fmi3OK;
}
fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance c, size_t *n) { *n = NZ; return fmi3OK; }
fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance c, size_t *n) { *n = NX; return fmi3OK; }
fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 now, fmi3Float64 h, fmi3Boolean keep, fmi3Boolean *event_needed,
                      fmi3Boolean *end, fmi3Boolean *early, fmi3Float64 *reached) {
  *event_needed = *early = *end = 0;
  *reached = now + h;
  if (now + h > M->stop * (1 + 1e-12)) return fmi3Error;
  if (!advance(M, now + h)) *end = 1;
  return fmi3OK;
}
#endif

/* the same in both versions */

STATUS F(SetTime)(void *c, double t) { M->time = t; return GOOD; }
STATUS F(SetContinuousStates)(void *c, const double x[], size_t n) {
  int i;
  for (i = 0; i < NX; i++) M->v[STATE[i]] = x[i];
  return n == NX ? GOOD : WRONG;
}
STATUS F(RATES)(void *c, double dx[], size_t n) {
  int i;
  compute(M);
  for (i = 0; i < NX; i++) dx[i] = M->v[RATE[i]];
  return n == NX ? GOOD : WRONG;
}
STATUS F(GetEventIndicators)(void *c, double z[], size_t n) { indicators(M, z); return n == NZ ? GOOD : WRONG; }
STATUS F(GetContinuousStates)(void *c, double x[], size_t n) {
  int i;
  for (i = 0; i < NX; i++) x[i] = M->v[STATE[i]];
  return GOOD;
}
STATUS F(GetNominalsOfContinuousStates)(void *c, double x[], size_t n) {
  size_t i;
  for (i = 0; i < n; i++) x[i] = 1;
  return GOOD;
}
