/* The functions of FMI 2.0, Co-Simulation and Model Exchange, around an exported model. */

typedef void *Instance;
typedef unsigned Ref;
typedef struct { int again, terminate, nominals, values, defined; double next; } Info;
enum { OK, WARNING, DISCARD, ERROR };
#define M ((Model *)c)

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT int fmi2SetDebugLogging(Instance c, int on, size_t n, const char *const k[]) { (void)c; (void)on; (void)n; (void)k; return OK; }
EXPORT Instance fmi2Instantiate(const char *name, int type, const char *token, const char *where, const void *functions,
                                int visible, int logging) {
  Model *m;
  (void)name; (void)type; (void)where; (void)functions; (void)visible; (void)logging;
  if (!token || strcmp(token, TOKEN)) return 0;
  m = malloc(sizeof(Model));
  if (m) model_reset(m);
  return m;
}
EXPORT void fmi2FreeInstance(Instance c) { free(c); }
EXPORT int fmi2SetupExperiment(Instance c, int td, double tol, double start, int sd, double stop) {
  (void)td; (void)tol; (void)sd; (void)stop;
  return model_set(M, AT_T, start) ? OK : ERROR;
}
EXPORT int fmi2EnterInitializationMode(Instance c) { (void)c; return OK; }
EXPORT int fmi2ExitInitializationMode(Instance c) { (void)c; return OK; }
EXPORT int fmi2Terminate(Instance c) { (void)c; return OK; }
EXPORT int fmi2Reset(Instance c) { model_reset(M); return OK; }

EXPORT int fmi2GetReal(Instance c, const Ref r[], size_t n, double value[]) {
  size_t i;
  for (i = 0; i < n; i++) if (!model_get(M, r[i], value + i)) return ERROR;
  return OK;
}
EXPORT int fmi2SetReal(Instance c, const Ref r[], size_t n, const double value[]) {
  size_t i;
  for (i = 0; i < n; i++) if (r[i] == AT_T || !model_set(M, r[i], value[i])) return ERROR;
  return OK;
}
#define NONE(name, type) EXPORT int name(Instance c, const Ref r[], size_t n, type value[]) { \
    (void)c; (void)r; (void)value; return n ? ERROR : OK; }
NONE(fmi2GetInteger, int) NONE(fmi2SetInteger, const int) NONE(fmi2GetBoolean, int) NONE(fmi2SetBoolean, const int)
NONE(fmi2GetString, const char *) NONE(fmi2SetString, const char *const)

EXPORT int fmi2GetFMUstate(Instance c, void **state) {
  if (!*state) *state = malloc(sizeof(Model));
  if (!*state) return ERROR;
  memcpy(*state, c, sizeof(Model));
  return OK;
}
EXPORT int fmi2SetFMUstate(Instance c, void *state) { memcpy(c, state, sizeof(Model)); return OK; }
EXPORT int fmi2FreeFMUstate(Instance c, void **state) { (void)c; free(*state); *state = 0; return OK; }
EXPORT int fmi2SerializedFMUstateSize(Instance c, void *state, size_t *size) { (void)c; (void)state; *size = sizeof(Model); return OK; }
EXPORT int fmi2SerializeFMUstate(Instance c, void *state, char bytes[], size_t size) {
  (void)c;
  if (size < sizeof(Model)) return ERROR;
  memcpy(bytes, state, sizeof(Model));
  return OK;
}
EXPORT int fmi2DeSerializeFMUstate(Instance c, const char bytes[], size_t size, void **state) {
  if (size < sizeof(Model) || fmi2GetFMUstate(c, state)) return ERROR;
  memcpy(*state, bytes, sizeof(Model));
  return OK;
}
EXPORT int fmi2GetDirectionalDerivative(Instance c, const Ref unknown[], size_t rows, const Ref known[], size_t columns,
                                        const double direction[], double result[]) {
  return model_derivative(M, unknown, rows, known, columns, direction, result) ? OK : ERROR;
}

EXPORT int fmi2EnterEventMode(Instance c) { (void)c; return OK; }
EXPORT int fmi2NewDiscreteStates(Instance c, Info *info) { (void)c; memset(info, 0, sizeof *info); return OK; }
EXPORT int fmi2EnterContinuousTimeMode(Instance c) { (void)c; return OK; }
EXPORT int fmi2CompletedIntegratorStep(Instance c, int keep, int *event, int *terminate) {
  (void)c; (void)keep;
  *event = *terminate = 0;
  return OK;
}
EXPORT int fmi2SetTime(Instance c, double t) { return model_set(M, AT_T, t) ? OK : ERROR; }
EXPORT int fmi2SetContinuousStates(Instance c, const double x[], size_t n) {
  if (n != NX) return ERROR;
  memcpy(M->v, x, n * sizeof(double));
  M->fresh = 0;
  return OK;
}
EXPORT int fmi2GetDerivatives(Instance c, double dx[], size_t n) {
  if (n != NX) return ERROR;
  model_rate(M, M->v[AT_T], M->v, dx);
  return OK;
}
EXPORT int fmi2GetEventIndicators(Instance c, double z[], size_t n) { (void)c; (void)z; return n ? ERROR : OK; }
EXPORT int fmi2GetContinuousStates(Instance c, double x[], size_t n) {
  if (n != NX) return ERROR;
  memcpy(x, M->v, n * sizeof(double));
  return OK;
}
EXPORT int fmi2GetNominalsOfContinuousStates(Instance c, double x[], size_t n) {
  size_t i;
  (void)c;
  for (i = 0; i < n; i++) x[i] = 1;
  return OK;
}

EXPORT int fmi2SetRealInputDerivatives(Instance c, const Ref r[], size_t n, const int order[], const double value[]) {
  (void)c; (void)r; (void)order; (void)value;
  return n ? ERROR : OK;
}
EXPORT int fmi2GetRealOutputDerivatives(Instance c, const Ref r[], size_t n, const int order[], double value[]) {
  (void)c; (void)r; (void)order; (void)value;
  return n ? ERROR : OK;
}
EXPORT int fmi2DoStep(Instance c, double now, double h, int keep) {
  (void)keep;
  M->v[AT_T] = now;
  return model_advance(M, h) ? OK : ERROR;
}
EXPORT int fmi2CancelStep(Instance c) { (void)c; return ERROR; }
#define ASK(name, type) EXPORT int name(Instance c, int kind, type *value) { (void)c; (void)kind; (void)value; return DISCARD; }
ASK(fmi2GetStatus, int) ASK(fmi2GetRealStatus, double) ASK(fmi2GetIntegerStatus, int) ASK(fmi2GetBooleanStatus, int)
ASK(fmi2GetStringStatus, const char *)
