
/* The face of the filter; see the header. */

static const dyn_settings settings = SETTINGS_TABLE;
static const double first_x[N] = FIRST_X_TABLE;
static const double first_std[N] = FIRST_STD_TABLE;
static const double variances[SIZE(NY)] = VARIANCES_TABLE;

int FILTER_INIT(FILTER_TYPE *filter) {
  double P[N * N] = {0}, u[SIZE(NU)] = {0};
  int i;
  for (i = 0; i < N; i++) P[i * N + i] = first_std[i] * first_std[i];
  return dyn_initialize((dyn_memory *)filter->memory, 0, 0, u, first_x, P);
}

int FILTER_UPDATE(FILTER_TYPE *filter, double t, const double *u, const double *y, RESULT_TYPE *result) {
  dyn_sample sample;
  const double *arg[1] = {sample.x};
  double value[N], slope[N];
  double *res[2] = {value, slope};
  int i;
  const int fault = dyn_update((dyn_memory *)filter->memory, &settings, t, u, y, variances, &sample, 0);
  if (fault) return fault; /* the result stays what it was; the filter has to begin anew */
  dyn_values(arg, res, 0, 0, 0);
  for (i = 0; i < NX; i++) {
    result->state[i] = value[i];
    result->state_std[i] = sqrt(sample.variance[i]);
  }
  for (i = 0; i < NT; i++) {
    result->parameter[i] = value[NX + i];
    result->parameter_std[i] = fabs(slope[NX + i]) * sqrt(sample.variance[NX + i]);
  }
  for (i = 0; i < NY; i++) result->predicted[i] = sample.predicted[i];
  result->nis = sample.nis;
  return 0;
}

void FILTER_COVARIANCE(const FILTER_TYPE *filter, double *P) {
  double x[N];
  dyn_estimate((const dyn_memory *)filter->memory, x, P);
}

/* A memory that does not fit stops the compiler here. */
typedef char dyn_memory_fits[sizeof(dyn_memory) == sizeof(FILTER_TYPE) ? 1 : -1];
