/* Implicit stages: the stages of a step by Newton's method, and their derivatives from the solved equations.

   Stands behind stages.c where STAGES > 0. The text in front defines beside what stands there
     NESTED           1: rates are asked for at states that depend on other rates
     CLOSING_RATES    1: the next state needs rates, not only stages
     ORDER[state]     its place in the band
     RATE_ROW[], RATE_COLUMN[]                    places of the entries of d rate/dx
     IDENTITY[i][j], SLOPE[i][j][rate]            weights of 1 and of h d rate/dx in d equation i/d stage j, unless NESTED */

#define NEWTON_LIMIT 25
#define NEWTON_SMALL 1e-8 /* of a stage and of its first correction; the next correction is then far below rounding */
#define NEWTON_NOISE 1e-12 /* of the largest stage; a correction that small and no longer shrinking is rounding */
#define NEWTON_EXACT 1e-17 /* of a stage and of its move; a correction that small, if it were made, would change nothing */
#define NEWTON_FAST 1e-2 /* of the correction before; where they shrink like this, the next follows from the last two */

#define FULL (KL + 1 >= NX)
#define NEWTON_KL (FULL ? NZ - 1 : KL * STAGES + STAGES - 1)
#define NEWTON_KU (FULL ? NZ - 1 : KU * STAGES + STAGES - 1)
#define NEWTON_SIZE (NZ * BAND_WIDTH(NZ, NEWTON_KL, NEWTON_KU))
#define PLACE(r, i) (FULL ? (i) * NX + (r) : ORDER[r] * STAGES + (i))
#define NEST_SIZE (NESTED ? (RATES + 2) * NX * NZ + 2 * NZ * NZ : 0)
#define WIDEST PADDED(NQ + (MODAL ? 2 : 1)) /* of a step through events: by its begin and its end */
#define CHAIN_SIZE (DERIVATIVES ? (RATES + 1 + 2 * STAGES) * BLOCK(WIDEST) : 0)
#if DERIVATIVES
#define NJS SIZE(NJQ)
#else
#define NJS SIZE(NJ)
#endif
#if SPARSE
#define SPARSE_SIZE (2 * PLACES * STAGES * STAGES)
#else
#define SPARSE_SIZE 0
#endif
#define STEP_WORK (NEWTON_SIZE + RATES * NJS + NEST_SIZE + CHAIN_SIZE + SPARSE_SIZE)

/* Room for one step, and what carries over to the next: how far the stages were from the state (0 length: nothing yet). */
typedef struct {
  double *A, *J, *nest, *chain, *sparse;
  int pivot[NZ], is_sparse; /* the factors are those in `sparse` */
  double move[NZ], length;
} Newton;

INLINE void newton_memory(Newton *newton, double *work) {
  newton->A = work;
  newton->J = newton->A + NEWTON_SIZE;
  newton->nest = newton->J + RATES * NJS;
  newton->chain = newton->nest + NEST_SIZE;
  newton->sparse = newton->chain + CHAIN_SIZE;
  newton->is_sparse = 0;
  newton->length = 0;
#if NESTED /* zeros, a matrix of ones on the diagonal behind them, and rates that do not follow the stages: all stay */
  memset(newton->nest, 0, NEST_SIZE * sizeof(double));
  for (int r = 0; r < NZ; r++) newton->nest[NX * NZ + r * NZ + r] = 1;
#endif
}

#if NA == 0 && !MODAL
INLINE void rate_x(double t, const double *x, const double *u, Parameters p, double *k, double *J) {
  const double *arg[4] = {&t, x, u, p};
  double *res[2] = {k, J};
  dyn_rate_x(arg, res, 0, 0, 0);
}
#endif

/* d equations/d stages from the entries J of all rates. */
#if NESTED
INLINE void newton_matrix(double h, Newton *newton) {
  double *A = newton->A, *J = newton->J;
  double *zero = newton->nest, *one = zero + NX * NZ, *X = one + NZ * NZ, *K = X + NX * NZ, *G = FULL ? A : K + RATES * NX * NZ;
  int r, i, c, j;
#define DO(e, c, fixed) if (!(fixed)) rate_product(J + (e) * NJS, stage_state_##e(h, NZ, zero, one, K, X), NZ, K + (e) * NX * NZ);
  EACH_RATE(DO)
#undef DO
  stage_equations(h, NZ, zero, one, K, G);
  if (FULL) return;
  memset(A, 0, NEWTON_SIZE * sizeof(double));
  for (i = 0; i < STAGES; i++)
    for (r = 0; r < NX; r++) {
      double *row = BAND(A, PLACE(r, i), NZ, NEWTON_KL, NEWTON_KU);
      const int from = PLACE(r, i) - NEWTON_KL, to = PLACE(r, i) + NEWTON_KU;
      for (j = 0; j < STAGES; j++)
        for (c = 0; c < NX; c++)
          if (PLACE(c, j) >= from && PLACE(c, j) <= to) row[PLACE(c, j)] = G[(i * NX + r) * NZ + j * NX + c];
    }
}
#else
INLINE void newton_matrix(double h, Newton *newton) {
  double *A = newton->A;
  int e, i, j, q, r;
  memset(A, 0, NEWTON_SIZE * sizeof(double));
  for (e = 0; e < RATES; e++) {
    const double *J = newton->J + e * NJS;
    for (j = 0; j < STAGES; j++)
      for (i = 0; i < STAGES; i++) {
        const double a = h * SLOPE[i][j][e];
        if (SLOPE[i][j][e] == 0) continue;
        for (q = 0; q < NJ; q++)
          BAND(A, PLACE(RATE_ROW[q], i), NZ, NEWTON_KL, NEWTON_KU)[PLACE(RATE_COLUMN[q], j)] += a * J[q];
      }
  }
  for (i = 0; i < STAGES; i++)
    for (j = 0; j < STAGES; j++)
      for (r = 0; r < NX; r++) BAND(A, PLACE(r, i), NZ, NEWTON_KL, NEWTON_KU)[PLACE(r, j)] += IDENTITY[i][j];
}
#endif

#if SPARSE
/* The same, place by place, and its factors; 0 where they are not exact enough. */
INLINE int newton_sparse(double h, Newton *newton) {
  double *A = newton->sparse + SPARSE_SIZE / 2;
  int e, i, q;
  memset(A, 0, SPARSE_SIZE / 2 * sizeof(double));
  for (e = 0; e < RATES; e++) {
    const double *J = newton->J + e * NJS;
    for (q = 0; q < NJ; q++) {
      double *to = A + ENTRY_PLACE[q] * STAGES * STAGES + e;
      for (i = 0; i < STAGES; i++) to[i * STAGES] += h * SLOPE[i][e][e] * J[q];
    }
  }
  for (q = 0; q < NX; q++)
    for (i = 0; i < STAGES; i++) A[PIVOT_PLACE[q] * STAGES * STAGES + i * STAGES + i] += 1;
  return factor_stages(A, newton->sparse);
}
#endif

#if SPARSE
#define RARELY static __attribute__((noinline, cold)) /* where the elimination place by place is not exact enough */
#else
#define RARELY INLINE
#endif

RARELY int whole_factor(double h, Newton *newton) {
  newton_matrix(h, newton);
  return band_factor(NZ, NEWTON_KL, NEWTON_KU, newton->A, newton->pivot);
}

RARELY void whole_solve(const Newton *newton, double *B, int w) {
  band_solve(NZ, NEWTON_KL, NEWTON_KU, newton->A, newton->pivot, B, w);
}

static __attribute__((noinline)) int newton_factor(double h, Newton *newton) {
#if SPARSE
  newton->is_sparse = newton_sparse(h, newton);
  if (newton->is_sparse) return 1;
#endif
  return whole_factor(h, newton);
}

/* B (stage by stage, w columns) <- d equations/d stages ^-1 B; `other` is room of the same size. */
INLINE void newton_solve(const Newton *newton, double *restrict B, double *restrict other, int w) {
  int i, r, j;
#if SPARSE
  if (newton->is_sparse) { solve_stages(newton->sparse, B, w); return; }
#endif
  if (FULL) {
    whole_solve(newton, B, w);
    return;
  }
  for (i = 0; i < STAGES; i++)
    for (r = 0; r < NX; r++)
      for (j = 0; j < w; j++) other[PLACE(r, i) * w + j] = B[(i * NX + r) * w + j];
  band_solve(NZ, NEWTON_KL, NEWTON_KU, newton->A, newton->pivot, other, w);
  for (i = 0; i < STAGES; i++)
    for (r = 0; r < NX; r++)
      for (j = 0; j < w; j++) B[(i * NX + r) * w + j] = other[PLACE(r, i) * w + j];
}

/* The stages z of one step by Newton's method from where they are; 0 if it does not settle.
   Corrections c, c' in a row have a next one of about c' (c'/c)^2: the last is not made where it would change nothing. */
static __attribute__((noinline)) int root(double t, double h, const double *x, double *z, const double *u0, const double *u1, Parameters p,
                Newton *newton) {
  double k[RATES * NX], at[NX], u[SIZE(NU)], G[NZ], room[NZ], before[NZ];
  int i, iteration, settled = 0;
#define DO(e, c, fixed) if (fixed) rate(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX);
  EACH_RATE(DO)
#undef DO
  for (iteration = 0; iteration < NEWTON_LIMIT; iteration++) {
    double largest = 0;
    int open = 0, inexact = 0;
#define DO(e, c, fixed) if (!(fixed)) rate_x(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, \
                                             k + (e) * NX, newton->J + (e) * NJS);
    EACH_RATE(DO)
#undef DO
    stage_equations(h, 1, x, z, k, G);
    if (!finite_all(G, NZ) || !newton_factor(h, newton)) return 0;
    newton_solve(newton, G, room, 1);
    for (i = 0; i < NZ; i++) {
      z[i] -= G[i];
      if (fabs(z[i]) > largest) largest = fabs(z[i]);
    }
    if (settled) return 1; /* one step more than needed: the derivatives assume an exact root */
    for (i = 0; i < NZ; i++) { /* measured against the stage itself: units do not matter */
      const double c = fabs(G[i]), size = fabs(z[i]) + fabs(z[i] - x[i % NX]);
      const int noise = iteration > 0 && c >= before[i] / 2 && c <= NEWTON_NOISE * largest;
      const int fast = iteration > 0 && c <= NEWTON_FAST * before[i];
      if (c > 0 && !(fast && c * (c / before[i]) * (c / before[i]) <= NEWTON_EXACT * size)) inexact = 1;
      if (!(c <= NEWTON_SMALL * size) && !noise) open = 1;
      before[i] = c;
    }
    if (!inexact) return 1;
    settled = !open;
  }
  return settled;
}

/* The stages of a step from x: begun where those of the step before went, which is close at once; 0 if there are none. */
INLINE int stages(double t, double h, const double *x, double *z, const double *u0, const double *u1, Parameters p,
                  Newton *newton) {
  const double longer = newton->length > 0 ? h / newton->length : 0;
  int i;
  for (i = 0; i < NZ; i++) z[i] = x[i % NX] + (longer > 0 ? longer * newton->move[i] : 0);
  if (!root(t, h, x, z, u0, u1, p, newton)) {
    if (!(longer > 0)) return 0;
    for (i = 0; i < NZ; i++) z[i] = x[i % NX];
    if (!root(t, h, x, z, u0, u1, p, newton)) return 0;
  }
  for (i = 0; i < NZ; i++) newton->move[i] = z[i] - x[i % NX];
  newton->length = h;
  return 1;
}

/* One implicit step; 0 if it has no solution. */
INLINE int step(double t, double h, double *x, const double *u0, const double *u1, Parameters p, Newton *newton) {
  double z[NZ], k[RATES * NX];
  if (!stages(t, h, x, z, u0, u1, p, newton)) return 0;
#if CLOSING_RATES
  double at[NX], u[SIZE(NU)];
#define DO(e, c, fixed) rate(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX);
  EACH_RATE(DO)
#undef DO
#endif
  next_state(h, 1, x, z, k, x);
  return 1;
}

#if DERIVATIVES
/* Rates and all their entries at given stages. */
INLINE void rates_q(double t, double h, const double *x, const double *z, const double *u0, const double *u1,
                    Parameters p, double *k, double *J) {
  double at[NX], u[SIZE(NU)];
#define DO(e, c, fixed) rate_q(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX, \
                               J + (e) * NJS);
  EACH_RATE(DO)
#undef DO
}

/* How stages and next state follow S and the parameters, from the factors of the solved equations. `next` may be S itself; the
   stages' part stays in newton->chain. With `lack`, what the equations lack is one column more, in front of all others. */
INLINE void chain(double h, const double *S, int w, int m, Newton *newton, const double *lack, double *next) {
  double *Z = newton->chain, *B = Z + STAGES * BLOCK(w), *K = B + STAGES * BLOCK(w), *X = K + RATES * BLOCK(w);
  const double *J = newton->J;
  int i;
#define DO(e, c, fixed) {                                                                     \
    const double *at = outer_state_##e(h, w, S, 0, K, X); /* the stages held */               \
    if (at) rate_product(J + (e) * NJS, at, w, K + (e) * BLOCK(w));                           \
    else memset(K + (e) * BLOCK(w), 0, BLOCK(w) * sizeof(double));                            \
    if (m >= 0) rate_product_parameters(J + (e) * NJS, w, m, K + (e) * BLOCK(w)); }
  EACH_RATE(DO)
#undef DO
  stage_response(h, w, S, 0, K, Z);
  if (lack) for (i = 0; i < NZ; i++) Z[i * w] = -lack[i];
  newton_solve(newton, Z, B, w);
#if CLOSING_RATES
#define DO(e, c, fixed) rate_chain(J + (e) * NJS, stage_state_##e(h, w, S, Z, K, X), w, m, K + (e) * BLOCK(w));
  EACH_RATE(DO)
#undef DO
#endif
  next_state(h, w, S, Z, K, next);
}

/* The same step with sensitivities. */
INLINE int step_q(double t, double h, double *x, const double *u0, const double *u1, Parameters p, double *S, int w,
                  int m, Newton *newton) {
  double z[NZ], k[RATES * NX];
  if (!stages(t, h, x, z, u0, u1, p, newton)) return 0;
  rates_q(t, h, x, z, u0, u1, p, k, newton->J);
  if (!newton_factor(h, newton)) return 0;
  chain(h, S, w, m, newton, 0, S);
  next_state(h, 1, x, z, k, x);
  return 1;
}
#endif
