/* Algebraic variables: z from 0 = g(t, x, z, u, p), and the rate and the outputs of the model with z eliminated.

   Stands in front of stages.c, which sees an ordinary rate with a Jacobian. The text in front of this one defines
     NA NM            algebraic variables, entries of dg/dz that are not always zero (of its lower triangle, where SYMMETRIC)
     AFFINE           1: dg/dz does not depend on z, which is then one solution of a linear system
     ATTEMPTS         where Newton's method begins in turn
     OUTPUT_Z         1: outputs depend on z
     MATRIX_ROW[], MATRIX_COLUMN[]                 places of the entries of dg/dz
     ZERO_ROW[], ZERO_COLUMN[], NGX, NG            of dg/dx, then of dg/d free p; how many of each
     RATE_..., OUTPUT_...                          places in the eliminated Jacobian, see Places below
   and the functions
     dyn_zero     (t, x, z, u, p) -> g (where z is 0, if AFFINE), entries of dg/dz
     dyn_guess    (t, x, u, p) -> z, one attempt after the other
     dyn_motion   (t, x, z, u, p) -> rate
     dyn_motion_x, dyn_motion_q -> rate; entries by x (and free p), by z; entries of dg by x (and free p)
     dyn_seen, dyn_seen_q       -> outputs; the same */

#define ALGEBRAIC_LIMIT 50
#define ALGEBRAIC_STEP 1e-8 /* of a variable and of its first correction; the next correction is then far below rounding */
#define ALGEBRAIC_NOISE 1e-10 /* of the largest variable; a correction that small and no longer shrinking is rounding */
#define SMALLEST_PIVOT 1e-8 /* of the largest entry; L D L' with a smaller pivot gives way to elimination with row pivots */
#define UNDAMPED 0.1 /* relative size of a correction below which it is made as it is */
#define MOST_HALVINGS 12

#if NA == 1
#define SOLVER INLINE
#else
#define SOLVER static __attribute__((noinline, unused)) /* once for all rates of a step: its loops are long when unrolled */
#endif

/* Parameters, and what carries over from place to place: the last z (where the next search begins) and the factors there. */
typedef struct {
  const double *p;
  double z[NA], A[NA * NA];
  int pivot[NA], known, by_rows, lost;
} Model;
typedef Model *Parameters;
#define VALUES(model) ((model)->p)

/* Where the entries of an eliminated Jacobian stand: row r has those by states from state[r] on and those by free parameters
   from parameter[r] on; column[e] of each; direct[i] takes the i-th entry that does not go through z; links are entries by z. */
typedef struct {
  int rows, directs, links;
  const int *state, *parameter, *column, *direct, *link_row, *link_column;
} Places;

INLINE void scatter_matrix(const double *E, double *A) {
  int q;
  memset(A, 0, NA * NA * sizeof(double));
  for (q = 0; q < NM; q++) {
    A[MATRIX_ROW[q] * NA + MATRIX_COLUMN[q]] = E[q];
    if (SYMMETRIC) A[MATRIX_COLUMN[q] * NA + MATRIX_ROW[q]] = E[q];
  }
}

/* A = L D L' in its lower triangle, D inverse; 0 where a pivot is too small. */
INLINE int ldl_factor(double *A) {
  double scaled[NA], pivots[NA], largest = 0;
  int i, j, k;
  for (i = 0; i < NA * NA; i++) if (fabs(A[i]) > largest) largest = fabs(A[i]);
  for (j = 0; j < NA; j++) {
    double pivot = A[j * NA + j];
    for (k = 0; k < j; k++) pivot -= A[j * NA + k] * (scaled[k] = A[j * NA + k] * pivots[k]);
    if (!(fabs(pivot) > SMALLEST_PIVOT * largest)) return 0;
    pivots[j] = pivot;
    A[j * NA + j] = 1 / pivot;
    for (i = j + 1; i < NA; i++) {
      double sum = A[i * NA + j];
      for (k = 0; k < j; k++) sum -= A[i * NA + k] * scaled[k];
      A[i * NA + j] = sum * A[j * NA + j];
    }
  }
  return 1;
}

/* B <- A^-1 B for m columns. */
INLINE void ldl_solve(const double *A, double *B, int m) {
  int i, j, k;
  for (i = 1; i < NA; i++)
    for (k = 0; k < i; k++) {
      const double f = A[i * NA + k];
      for (j = 0; j < m; j++) B[i * m + j] -= f * B[k * m + j];
    }
  for (i = NA - 1; i >= 0; i--) {
    for (j = 0; j < m; j++) B[i * m + j] *= A[i * NA + i];
    for (k = i + 1; k < NA; k++) {
      const double f = A[k * NA + i];
      for (j = 0; j < m; j++) B[i * m + j] -= f * B[k * m + j];
    }
  }
}

SOLVER int matrix_factor(const double *E, Model *m) {
  scatter_matrix(E, m->A);
  m->by_rows = 0;
  if (SYMMETRIC && ldl_factor(m->A)) return 1;
  if (SYMMETRIC) scatter_matrix(E, m->A);
  m->by_rows = 1;
  return band_factor(NA, NA - 1, NA - 1, m->A, m->pivot);
}

SOLVER void matrix_solve(const Model *m, double *B, int columns) {
  if (SYMMETRIC && !m->by_rows) ldl_solve(m->A, B, columns);
  else band_solve(NA, NA - 1, NA - 1, m->A, m->pivot, B, columns);
}

/* g and dg/dz at z, factorised, and the correction that Newton's method asks for; 0 where there is none. */
INLINE int correction(double t, const double *x, const double *z, const double *u, Model *m, double *c) {
  double E[SIZE(NM)];
  const double *arg[5] = {&t, x, z, u, m->p};
  double *res[2] = {c, E};
  int i;
  dyn_zero(arg, res, 0, 0, 0);
  if (!matrix_factor(E, m)) return 0;
  matrix_solve(m, c, 1);
  for (i = 0; i < NA; i++) if (!isfinite(c[i])) return 0;
  return 1;
}

#if AFFINE
/* z of one linear system; 0 where it is singular. */
SOLVER int solve_algebraic(double t, const double *x, const double *u, Model *m) {
  double c[NA];
  int i;
  if (!correction(t, x, m->z, u, m, c)) { m->lost = 1; return 0; }
  for (i = 0; i < NA; i++) m->z[i] = -c[i];
  return 1;
}
#else
INLINE double relative_size(const double *c, const double *scale) {
  double sum = 0;
  int i;
  for (i = 0; i < NA; i++) sum += (c[i] / scale[i]) * (c[i] / scale[i]);
  return sqrt(sum);
}

/* How far along a correction: the next one by the same factors must be shorter (Deuflhard's monotonicity test); 0: nowhere. */
static __attribute__((noinline)) double damping(double t, const double *x, const double *z, const double *u, const double *c, const Model *m) {
  double scale[NA], trial[NA], ahead[NA], E[SIZE(NM)], length = 1, now;
  const double *arg[5] = {&t, x, trial, u, m->p};
  double *res[2] = {ahead, E};
  int i, n;
  for (i = 0; i < NA; i++) scale[i] = fabs(z[i]) + fabs(c[i]) + 1e-300;
  now = relative_size(c, scale);
  if (now <= UNDAMPED) return 1;
  for (n = 0; n < MOST_HALVINGS; n++, length /= 2) {
    for (i = 0; i < NA; i++) trial[i] = z[i] - length * c[i];
    dyn_zero(arg, res, 0, 0, 0);
    matrix_solve(m, ahead, 1);
    if (relative_size(ahead, scale) < now) return length;
  }
  return 0;
}

/* Newton's method from z; 0 where it does not settle. What it leaves are z to rounding and factors beside it. */
static __attribute__((noinline)) int search(double t, const double *x, double *z, const double *u, Model *m) {
  double begun[NA], before[NA], c[NA];
  int i, iteration, settled = 0;
  for (iteration = 0; iteration < ALGEBRAIC_LIMIT; iteration++) {
    double largest = 1e-6, length;
    if (!correction(t, x, z, u, m, c)) return 0;
    if (settled) {
      for (i = 0; i < NA; i++) z[i] -= c[i];
      return 1;
    }
    for (i = 0; i < NA; i++) {
      if (fabs(z[i]) > largest) largest = fabs(z[i]);
      if (iteration == 0) begun[i] = fabs(z[i]) + fabs(c[i]);
    }
    settled = 1;
    for (i = 0; i < NA; i++) {
      const double size = fabs(c[i]);
      const int noise = iteration > 0 && size >= before[i] / 2 && size <= ALGEBRAIC_NOISE * largest;
      if (!(size <= ALGEBRAIC_STEP * (fabs(z[i] - c[i]) + begun[i])) && !noise) settled = 0;
      before[i] = size;
    }
    length = damping(t, x, z, u, c, m);
    if (!(length > 0)) return 0;
    for (i = 0; i < NA; i++) z[i] -= length * c[i];
  }
  return 0;
}

/* z from where it was last, or from the guesses; 0 where there is none within reach. */
SOLVER int solve_algebraic(double t, const double *x, const double *u, Model *m) {
  double z[ATTEMPTS * NA];
  const double *arg[4] = {&t, x, u, m->p};
  double *res[1] = {z};
  int a;
  if (m->known) {
    memcpy(z, m->z, sizeof m->z);
    if (search(t, x, z, u, m)) { memcpy(m->z, z, sizeof m->z); return 1; }
  }
  dyn_guess(arg, res, 0, 0, 0);
  for (a = 0; a < ATTEMPTS; a++)
    if (search(t, x, z + a * NA, u, m)) {
      memcpy(m->z, z + a * NA, sizeof m->z);
      m->known = 1;
      return 1;
    }
  m->lost = 1;
  return 0;
}
#endif

/* dz/d(x, free p) = -(dg/dz)^-1 dg/d(x, free p), `width` numbers in a row, from the factors at z. */
INLINE void implicit_derivative(const Model *m, const double *G, int width, double *D) {
  int q;
  memset(D, 0, NA * width * sizeof(double));
  for (q = 0; q < (width == NX ? NGX : NG); q++) D[ZERO_ROW[q] * width + ZERO_COLUMN[q]] = -G[q];
  matrix_solve(m, D, width);
}

/* J = direct entries + (entries by z) dz/d(x, free p); with `width` NX those by the states alone. */
INLINE void chained(const Places at, const double *direct, const double *by_z, const double *D, int width, double *J) {
  const int size = width == NX ? at.state[at.rows] : at.parameter[at.rows];
  int q, e;
  for (e = 0; e < size; e++) J[e] = 0;
  for (q = 0; q < at.directs && at.direct[q] < size; q++) J[at.direct[q]] = direct[q];
  for (q = 0; q < at.links; q++) {
    const int r = at.link_row[q];
    const double *row = D + at.link_column[q] * width;
    for (e = at.state[r]; e < at.state[r + 1]; e++) J[e] += by_z[q] * row[at.column[e]];
    if (width > NX) for (e = at.parameter[r]; e < at.parameter[r + 1]; e++) J[e] += by_z[q] * row[at.column[e]];
  }
}

INLINE void no_value(double *v, int n) {
  int i;
  for (i = 0; i < n; i++) v[i] = NAN;
}

INLINE void rate(double t, const double *x, const double *u, Parameters m, double *k) {
  const double *arg[5] = {&t, x, m->z, u, m->p};
  double *res[1] = {k};
  if (solve_algebraic(t, x, u, m)) dyn_motion(arg, res, 0, 0, 0);
  else no_value(k, NX);
}

/* A function `name`: the value of `function` (`rows` numbers) and its eliminated Jacobian (`entries`), by x or by x and free p. */
#define ELIMINATED(name, function, AT, width, rows, entries) \
  INLINE void name(double t, const double *x, const double *u, Parameters m, double *value, double *J) { \
    double direct[SIZE(AT##_DIRECTS)], by_z[SIZE(AT##_LINKS)], G[SIZE(NG)], D[NA * (width)]; \
    const double *arg[5] = {&t, x, m->z, u, m->p}; \
    double *res[4] = {value, direct, by_z, G}; \
    if (!solve_algebraic(t, x, u, m)) { no_value(value, rows); no_value(J, entries); return; } \
    function(arg, res, 0, 0, 0); \
    implicit_derivative(m, G, width, D); \
    chained(AT##_PLACES, direct, by_z, D, width, J); \
  }

#if WITH_RATE_X
ELIMINATED(rate_x, dyn_motion_x, RATE, NX, NX, NJ)
#endif

#if DERIVATIVES
ELIMINATED(rate_q, dyn_motion_q, RATE, NX + NF, NX, NJQ)
#endif

#if OUTPUT_Z
INLINE void outputs_at(double t, const double *x, const double *u, Parameters m, double *y) {
  const double *arg[5] = {&t, x, m->z, u, m->p};
  double *res[1] = {y};
  if (solve_algebraic(t, x, u, m)) dyn_seen(arg, res, 0, 0, 0);
  else no_value(y, NY);
}

#if DERIVATIVES
ELIMINATED(outputs_at_q, dyn_seen_q, OUTPUT, NX + NF, NY, NYQ)
#endif
#endif
