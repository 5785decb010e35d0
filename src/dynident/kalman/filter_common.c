/* What every filter shares: what it remembers, what it is told, and small dense algebra.

   The text in front of this one defines NX NT NU NY NP (states, parameters as still states, inputs, outputs, parameters
   of the model) and the functions, with a = (states, coordinates of the free parameters),
     dyn_next      (t, h, a, u0, u1, p) -> next states
     dyn_next_jacobian (t, h, a, u0, u1, p) -> next states, their derivative in a (row by row, W apart)
     dyn_output      (t, a, u, p)         -> outputs
     dyn_output_jacobian  (t, a, u, p)         -> outputs, their derivative in a (row by row, N apart)
   Every struct is made of doubles only, so that it is one flat array elsewhere. No memory is ever allocated. */

#define TWO_PI 6.283185307179586
#define COVARIANCE_PIVOT 1e-13 /* relative: below it a direction is known exactly, or known through others */
#define COVARIANCE_NEGATIVE_PIVOT -1e-6 /* relative: rounding makes none as negative as this (both as in tolerances.py) */

enum { FINE = 0, NOT_FINITE = 1, NOT_POSITIVE = 2, TIME_GOES_BACK = 3 };

typedef struct {        /* what the filter is told once */
  double p[SIZE(NP)];   /* fixed parameters; places of free ones are not read */
  double q[N];          /* variance that process noise adds, per second or per sample */
  double per_sample;    /* 1: q is per sample */
  double lower[SIZE(NT)], upper[SIZE(NT)];
  double first_order_hold[SIZE(NU)]; /* 1: the input moves linearly between samples, 0: zero-order hold */
  double max_step;       /* seconds: no step is longer */
  double gate;          /* standard deviations beyond which a measurement is left out; 0: none is */
} dyn_settings;

typedef struct {        /* what is known after a sample */
  double x[N], variance[N];
  double predicted[SIZE(NY)]; /* outputs as predicted before the sample */
  double whitened[SIZE(NY)];  /* innovations, made independent and of variance 1; NaN where there is none */
  double used[SIZE(NY)];      /* 1 used, 0 missing, 2 left out by the gate */
  double nis, loglik, projected; /* normalised innovations squared; log-likelihood; parameters projected onto a bound */
} dyn_sample;

typedef struct {        /* what a smoother needs beside it: x = A x_last, then x += c (e - h x) for each row */
  double P[N * N];      /* after the sample */
  double A[NX * N];     /* how the states followed from the last sample; parameters stood still */
  double h[SIZE(NY)][N], c[SIZE(NY)][N], e[SIZE(NY)]; /* measurements, gains, innovations, whitened; 0 if not used */
} dyn_smoother_data;

static int all_finite(const double *v, int n) {
  int i;
  for (i = 0; i < n; i++) if (!isfinite(v[i])) return 0;
  return 1;
}

static int substep_count(const dyn_settings *s, double gap) {
  const double count = ceil(gap / s->max_step * (1 - 1e-6)); /* jitter of 1 ppm adds no step */
  return count > 1 ? (int)count : 1;
}

static void interpolate_inputs(const dyn_settings *s, const double *from, const double *to, int m, int count,
                           double *u0, double *u1) {
  int a;
  for (a = 0; a < NU; a++) {
    const double slope = s->first_order_hold[a] * (to[a] - from[a]) / count;
    u0[a] = from[a] + m * slope;
    u1[a] = from[a] + (m + 1) * slope;
  }
}

/* The lower factor of a symmetric matrix; a direction without variance gives a column of zeros. 0 if it has a negative one.
   Roots are taken at the end: until then only quotients wait for each other. */
INLINE int cholesky(const double *P, double *L) {
  double whole[N * N], pivots[N]; /* L before its columns are scaled to a diagonal of 1 */
  int i, j, k;
  for (j = 0; j < N; j++) {
    const double size = fabs(P[j * N + j]);
    double pivot = P[j * N + j], inverse;
    for (k = 0; k < j; k++) pivot -= L[j * N + k] * whole[j * N + k];
    if (pivot <= COVARIANCE_PIVOT * size) {
      if (!(pivot >= COVARIANCE_NEGATIVE_PIVOT * size)) return 0;
      pivot = 0;
    }
    pivots[j] = pivot;
    inverse = pivot > 0 ? 1 / pivot : 0;
    for (i = j + 1; i < N; i++) {
      double sum = P[i * N + j];
      for (k = 0; k < j; k++) sum -= L[i * N + k] * whole[j * N + k];
      whole[i * N + j] = sum;
      L[i * N + j] = sum * inverse;
    }
  }
  for (j = 0; j < N; j++) {
    const double root = sqrt(pivots[j]);
    for (i = 0; i < j; i++) L[i * N + j] = 0;
    L[j * N + j] = root;
    for (i = j + 1; i < N; i++) L[i * N + j] *= root;
  }
  return 1;
}

/* The transition matrix A of no time at all */
static void identity_transition(double *A) {
  int i;
  memset(A, 0, sizeof(double) * NX * N);
  for (i = 0; i < NX; i++) A[i * N + i] = 1;
}

/* A <- F A, both for the states only: parameters stand still. A stands row by row. */
static void chain_transition(const double *restrict F, double *restrict A) {
  double next[NX * N];
  int i, j, l;
  for (i = 0; i < NX; i++) {
    double *restrict row = next + i * N;
    for (j = 0; j < NX; j++) row[j] = 0;
    for (j = NX; j < N; j++) row[j] = F[i * W + j];
    for (l = 0; l < NX; l++)
      for (j = 0; j < N; j++) row[j] += F[i * W + l] * A[l * N + j];
  }
  memcpy(A, next, sizeof next);
}

/* The adjoint of a step: lambda <- [A; 0 I]' lambda */
static void adjoint_step(const double *A, double *lambda) {
  double next[N];
  int i, j;
  for (j = 0; j < N; j++) {
    next[j] = j < NX ? 0 : lambda[j];
    for (i = 0; i < NX; i++) next[j] += A[i * N + j] * lambda[i];
  }
  memcpy(lambda, next, sizeof next);
}

/* Parameters outside of their bounds: the nearest point inside, in the metric of the covariance (P, full, its rows `wide`
   apart). The state moves by -P lambda; lambda is added to where it is asked for. */
INLINE int project_onto_bounds(double *x, const double *P, int wide, const dyn_settings *s, double *lambda) {
  int a, i, moved = 0;
  for (a = 0; a < NT; a++) {
    const int row = NX + a;
    const double value = x[row];
    const double wanted = value < s->lower[a] ? s->lower[a] : value > s->upper[a] ? s->upper[a] : value;
    if (wanted == value || !(P[row * wide + row] > 0)) continue;
    for (i = 0; i < N; i++) x[i] += P[i * wide + row] / P[row * wide + row] * (wanted - value);
    x[row] = wanted;
    if (lambda) lambda[row] -= (wanted - value) / P[row * wide + row];
    moved++;
  }
  return moved;
}
