/* The functions of FMI 3.0, Co-Simulation and Model Exchange, around an exported model. */

#include <stdbool.h>

typedef void *Instance;
typedef uint32_t Ref;
enum { OK, WARNING, DISCARD, ERROR };
#define M ((Model *)c)

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT int fmi3SetDebugLogging(Instance c, bool on, size_t n, const char *const k[]) { (void)c; (void)on; (void)n; (void)k; return OK; }
static Instance made(const char *token) {
  Model *m;
  if (!token || strcmp(token, TOKEN)) return 0;
  m = malloc(sizeof(Model));
  if (m) model_reset(m);
  return m;
}
EXPORT Instance fmi3InstantiateModelExchange(const char *name, const char *token, const char *where, bool visible,
                                             bool logging, void *environment, void *log) {
  (void)name; (void)where; (void)visible; (void)logging; (void)environment; (void)log;
  return made(token);
}
EXPORT Instance fmi3InstantiateCoSimulation(const char *name, const char *token, const char *where, bool visible, bool logging,
                                            bool events, bool early, const Ref r[], size_t n, void *environment, void *log,
                                            void *update) {
  (void)name; (void)where; (void)visible; (void)logging; (void)events; (void)early; (void)r; (void)n; (void)environment;
  (void)log; (void)update;
  return made(token);
}
EXPORT Instance fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *where, bool visible,
                                                  bool logging, void *environment, void *log, void *clock, void *lock,
                                                  void *unlock) {
  (void)name; (void)token; (void)where; (void)visible; (void)logging; (void)environment; (void)log; (void)clock; (void)lock;
  (void)unlock;
  return 0;
}
EXPORT void fmi3FreeInstance(Instance c) { free(c); }
EXPORT int fmi3EnterInitializationMode(Instance c, bool td, double tol, double start, bool sd, double stop) {
  (void)td; (void)tol; (void)sd; (void)stop;
  return model_set(M, AT_T, start) ? OK : ERROR;
}
#define PLAIN(name) EXPORT int name(Instance c) { (void)c; return OK; }
PLAIN(fmi3ExitInitializationMode) PLAIN(fmi3EnterEventMode) PLAIN(fmi3Terminate) PLAIN(fmi3EnterConfigurationMode)
PLAIN(fmi3ExitConfigurationMode) PLAIN(fmi3EnterContinuousTimeMode) PLAIN(fmi3EnterStepMode)
PLAIN(fmi3EvaluateDiscreteStates)
EXPORT int fmi3Reset(Instance c) { model_reset(M); return OK; }

EXPORT int fmi3GetFloat64(Instance c, const Ref r[], size_t n, double value[], size_t values) {
  size_t i;
  if (values != n) return ERROR;
  for (i = 0; i < n; i++) if (!model_get(M, r[i], value + i)) return ERROR;
  return OK;
}
EXPORT int fmi3SetFloat64(Instance c, const Ref r[], size_t n, const double value[], size_t values) {
  size_t i;
  if (values != n) return ERROR;
  for (i = 0; i < n; i++) if (r[i] == AT_T || !model_set(M, r[i], value[i])) return ERROR;
  return OK;
}
#define NONE(kind, type) \
  EXPORT int fmi3Get##kind(Instance c, const Ref r[], size_t n, type value[], size_t values) { \
    (void)c; (void)r; (void)value; (void)values; return n ? ERROR : OK; } \
  EXPORT int fmi3Set##kind(Instance c, const Ref r[], size_t n, const type value[], size_t values) { \
    (void)c; (void)r; (void)value; (void)values; return n ? ERROR : OK; }
NONE(Float32, float) NONE(Int8, int8_t) NONE(UInt8, uint8_t) NONE(Int16, int16_t) NONE(UInt16, uint16_t)
NONE(Int32, int32_t) NONE(UInt32, uint32_t) NONE(Int64, int64_t) NONE(UInt64, uint64_t) NONE(Boolean, bool)
typedef const char *Text;
NONE(String, Text)
EXPORT int fmi3GetBinary(Instance c, const Ref r[], size_t n, size_t s[], const uint8_t *v[], size_t k) {
  (void)c; (void)r; (void)s; (void)v; (void)k; return n ? ERROR : OK; }
EXPORT int fmi3SetBinary(Instance c, const Ref r[], size_t n, const size_t s[], const uint8_t *const v[], size_t k) {
  (void)c; (void)r; (void)s; (void)v; (void)k; return n ? ERROR : OK; }
EXPORT int fmi3GetClock(Instance c, const Ref r[], size_t n, bool v[]) { (void)c; (void)r; (void)v; return n ? ERROR : OK; }
EXPORT int fmi3SetClock(Instance c, const Ref r[], size_t n, const bool v[]) { (void)c; (void)r; (void)v; return n ? ERROR : OK; }
#define INTERVAL(name, ...) EXPORT int name(Instance c, const Ref r[], size_t n, __VA_ARGS__) { \
    (void)c; (void)r; return n ? ERROR : OK; }
INTERVAL(fmi3GetIntervalDecimal, double a[], int b[]) INTERVAL(fmi3GetIntervalFraction, uint64_t a[], uint64_t b[], int d[])
INTERVAL(fmi3GetShiftDecimal, double a[]) INTERVAL(fmi3GetShiftFraction, uint64_t a[], uint64_t b[])
INTERVAL(fmi3SetIntervalDecimal, const double a[]) INTERVAL(fmi3SetIntervalFraction, const uint64_t a[], const uint64_t b[])
INTERVAL(fmi3SetShiftDecimal, const double a[]) INTERVAL(fmi3SetShiftFraction, const uint64_t a[], const uint64_t b[])
EXPORT int fmi3ActivateModelPartition(Instance c, Ref r, double t) { (void)c; (void)r; (void)t; return ERROR; }

EXPORT int fmi3GetNumberOfVariableDependencies(Instance c, Ref r, size_t *n) { (void)c; (void)r; (void)n; return ERROR; }
EXPORT int fmi3GetVariableDependencies(Instance c, Ref r, size_t a[], Ref b[], size_t d[], int k[], size_t n) {
  (void)c; (void)r; (void)a; (void)b; (void)d; (void)k; (void)n; return ERROR; }
EXPORT int fmi3GetFMUState(Instance c, void **state) {
  if (!*state) *state = malloc(sizeof(Model));
  if (!*state) return ERROR;
  memcpy(*state, c, sizeof(Model));
  return OK;
}
EXPORT int fmi3SetFMUState(Instance c, void *state) { memcpy(c, state, sizeof(Model)); return OK; }
EXPORT int fmi3FreeFMUState(Instance c, void **state) { (void)c; free(*state); *state = 0; return OK; }
EXPORT int fmi3SerializedFMUStateSize(Instance c, void *state, size_t *size) { (void)c; (void)state; *size = sizeof(Model); return OK; }
EXPORT int fmi3SerializeFMUState(Instance c, void *state, uint8_t bytes[], size_t size) {
  (void)c;
  if (size < sizeof(Model)) return ERROR;
  memcpy(bytes, state, sizeof(Model));
  return OK;
}
EXPORT int fmi3DeserializeFMUState(Instance c, const uint8_t bytes[], size_t size, void **state) {
  if (size < sizeof(Model) || fmi3GetFMUState(c, state)) return ERROR;
  memcpy(*state, bytes, sizeof(Model));
  return OK;
}
EXPORT int fmi3GetDirectionalDerivative(Instance c, const Ref unknown[], size_t rows, const Ref known[], size_t columns,
                                        const double seed[], size_t seeds, double result[], size_t results) {
  if (seeds != columns || results != rows) return ERROR;
  return model_derivative(M, unknown, rows, known, columns, seed, result) ? OK : ERROR;
}
EXPORT int fmi3GetAdjointDerivative(Instance c, const Ref u[], size_t nu, const Ref k[], size_t nk, const double s[], size_t ns,
                                    double r[], size_t nr) {
  (void)c; (void)u; (void)nu; (void)k; (void)nk; (void)s; (void)ns; (void)r; (void)nr; return ERROR; }

EXPORT int fmi3UpdateDiscreteStates(Instance c, bool *again, bool *terminate, bool *nominals, bool *values, bool *defined,
                                    double *next) {
  (void)c;
  *again = *terminate = *nominals = *values = *defined = false;
  *next = 0;
  return OK;
}
EXPORT int fmi3CompletedIntegratorStep(Instance c, bool keep, bool *event, bool *terminate) {
  (void)c; (void)keep;
  *event = *terminate = false;
  return OK;
}
EXPORT int fmi3SetTime(Instance c, double t) { return model_set(M, AT_T, t) ? OK : ERROR; }
EXPORT int fmi3SetContinuousStates(Instance c, const double x[], size_t n) {
  if (n != NX) return ERROR;
  memcpy(M->v, x, n * sizeof(double));
  M->fresh = 0;
  return OK;
}
EXPORT int fmi3GetContinuousStateDerivatives(Instance c, double dx[], size_t n) {
  if (n != NX) return ERROR;
  model_rate(M, M->v[AT_T], M->v, dx);
  return OK;
}
EXPORT int fmi3GetEventIndicators(Instance c, double z[], size_t n) { (void)c; (void)z; return n ? ERROR : OK; }
EXPORT int fmi3GetContinuousStates(Instance c, double x[], size_t n) {
  if (n != NX) return ERROR;
  memcpy(x, M->v, n * sizeof(double));
  return OK;
}
EXPORT int fmi3GetNominalsOfContinuousStates(Instance c, double x[], size_t n) {
  size_t i;
  (void)c;
  for (i = 0; i < n; i++) x[i] = 1;
  return OK;
}
EXPORT int fmi3GetNumberOfEventIndicators(Instance c, size_t *n) { (void)c; *n = 0; return OK; }
EXPORT int fmi3GetNumberOfContinuousStates(Instance c, size_t *n) { (void)c; *n = NX; return OK; }
EXPORT int fmi3GetOutputDerivatives(Instance c, const Ref r[], size_t n, const int32_t o[], double v[], size_t k) {
  (void)c; (void)r; (void)o; (void)v; (void)k; return n ? ERROR : OK; }
EXPORT int fmi3DoStep(Instance c, double now, double h, bool keep, bool *event, bool *terminate, bool *early, double *reached) {
  (void)keep;
  *event = *terminate = *early = false;
  M->v[AT_T] = now;
  if (!model_advance(M, h)) return ERROR;
  *reached = now + h;
  return OK;
}
