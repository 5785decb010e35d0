/* Stages: one step of a scheme from the rate of a model, with sensitivities; written once for every scheme.

   The text in front of this one defines
     NX NU NP NF NY   states, inputs, parameters, free parameters, outputs
     STAGES RATES     of the scheme: unknown stages of an implicit step (0: explicit), rates asked for in a step
     NJ NJQ NYQ       entries of d rate/dx, of d rate/d(x, free p), of d output/d(x, free p) that are not always zero
     KL KU            lower and upper bandwidth of d rate/dx with the states in ORDER (of its square, where NESTED)
     UNROLLED         1: a small model, all of whose functions are made one
     COLUMNS          1: few states, so that a step of one column of S is printed (step_columns); explicit schemes
     DERIVATIVES      0: a library that only simulates
     NA OUTPUT_Z      algebraic variables, whether outputs use them; algebraic.c then stands in front and brings the rate
     MODAL            1: a hybrid model, whose rate is that of a mode; mode_rates.c then stands in front and brings it
   and the functions
     dyn_rate     (t, x, u, p) -> rate
     dyn_rate_x   (t, x, u, p) -> rate, entries by x                    implicit schemes
     dyn_rate_q   (t, x, u, p) -> rate, entries by (x, free p)          with derivatives
     dyn_out, dyn_out_q        -> outputs; outputs, entries by (x, free p)
     rate_product, output_product, ..._parameters        codegen/sparse_jacobian.py
     stage_state_0 ..., stage_equations, next_state      combinations of the tableau, integrators/tableau_source.py
     EACH_RATE(DO)             DO(number, fraction of the step, 1 where its state is fixed before the stages are known)
   All matrices stand row by row; S and what is made of it have w numbers in a row (PADDED). */

#define NQ (NX + NF)
#define NZ (STAGES * NX)
#define BLOCK(w) (NX * (w))

INLINE int finite_all(const double *v, int n) {
  int i;
  for (i = 0; i < n; i++) if (!isfinite(v[i])) return 0;
  return 1;
}

#if NA == 0 && !MODAL
typedef const double *Parameters;
#define VALUES(parameters) (parameters)

INLINE void rate(double t, const double *x, const double *u, Parameters p, double *k) {
  const double *arg[4] = {&t, x, u, p};
  double *res[1] = {k};
  dyn_rate(arg, res, 0, 0, 0);
}

#if DERIVATIVES
INLINE void rate_q(double t, const double *x, const double *u, Parameters p, double *k, double *J) {
  const double *arg[4] = {&t, x, u, p};
  double *res[2] = {k, J};
  dyn_rate_q(arg, res, 0, 0, 0);
}
#endif
#endif

/* The inputs at a fraction of the step; they move linearly in it. */
INLINE const double *inputs_at(double c, const double *u0, const double *u1, double *u) {
  int a;
  if (c == 0) return u0;
  if (c == 1) return u1;
  for (a = 0; a < NU; a++) u[a] = (1 - c) * u0[a] + c * u1[a];
  return u;
}

#if DERIVATIVES
/* K = J_x X + [0 J_p], the parameters from column m on; m < 0: there are none. */
INLINE void rate_chain(const double *J, const double *X, int w, int m, double *K) {
  rate_product(J, X, w, K);
  if (m >= 0) rate_product_parameters(J, w, m, K);
}
#endif

#if STAGES == 0
/* One explicit step. */
INLINE int step(double t, double h, double *x, const double *u0, const double *u1, Parameters p) {
  double k[RATES * NX], at[NX], u[SIZE(NU)];
#define DO(e, c, fixed) rate(t + (c) * h, stage_state_##e(h, 1, x, 0, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX);
  EACH_RATE(DO)
#undef DO
  next_state(h, 1, x, 0, k, x);
  return 1;
}

#if DERIVATIVES
#define STEP_WORK ((RATES + 1) * BLOCK(PADDED(NQ)))
#if COLUMNS
/* Where a step leads, and all entries of all its rates. */
INLINE void rates_q(double t, double h, double *x, const double *u0, const double *u1, Parameters p, double *J) {
  double k[RATES * NX], at[NX], u[SIZE(NU)];
#define DO(e, c, fixed) rate_q(t + (c) * h, stage_state_##e(h, 1, x, 0, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX, J + (e) * NJQ);
  EACH_RATE(DO)
#undef DO
  next_state(h, 1, x, 0, k, x);
}

/* The same with sensitivities: all rates first, then all stages of each column of S, which the compiler works off in lanes.
   What stands in `work` beside the entries by parameters is 0, see begin_q. */
INLINE int step_q(double t, double h, double *x, const double *u0, const double *u1, Parameters p, double *S, int w,
                  int m, double *work) {
  double J[RATES * SIZE(NJQ)];
  rates_q(t, h, x, u0, u1, p, J);
#define DO(e, c, fixed) rate_product_place(J + (e) * NJQ, w, m, work + (e) * BLOCK(w));
  EACH_RATE(DO)
#undef DO
  step_columns(h, J, work, w, S);
  return 1;
}

INLINE void begin_q(double *work, int w) { memset(work, 0, RATES * BLOCK(w) * sizeof(double)); }
#else
/* The same with sensitivities. */
INLINE int step_q(double t, double h, double *x, const double *u0, const double *u1, Parameters p, double *S, int w,
                  int m, double *work) {
  double k[RATES * NX], at[NX], u[SIZE(NU)], J[SIZE(NJQ)];
  double *K = work, *X = work + RATES * BLOCK(w);
#define DO(e, c, fixed)                                                                                                    \
  rate_q(t + (c) * h, stage_state_##e(h, 1, x, 0, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX, J);                     \
  rate_chain(J, stage_state_##e(h, w, S, 0, K, X), w, m, K + (e) * BLOCK(w));
  EACH_RATE(DO)
#undef DO
  next_state(h, 1, x, 0, k, x);
  next_state(h, w, S, 0, K, S);
  return 1;
}

INLINE void begin_q(double *work, int w) {}
#endif
#endif
#endif

#if !MODAL
/* y and dy/d(segment's first state, free p) at one node */
INLINE void outputs(const double *t, const double *x, const double *u, Parameters p, double *y) {
#if OUTPUT_Z
  outputs_at(*t, x, u, p, y);
#else
  const double *arg[4] = {t, x, u, VALUES(p)};
  double *res[1] = {y};
  dyn_out(arg, res, 0, 0, 0);
#endif
}

#if DERIVATIVES
INLINE void outputs_q(const double *t, const double *x, const double *u, Parameters p, const double *S, int w, int m,
                      double *y, double *D) {
  double J[SIZE(NYQ)];
#if OUTPUT_Z
  outputs_at_q(*t, x, u, p, y, J);
#else
  const double *arg[4] = {t, x, u, VALUES(p)};
  double *res[2] = {y, J};
  dyn_out_q(arg, res, 0, 0, 0);
#endif
  output_product(J, S, w, D);
  output_product_parameters(J, w, m, D);
}
#endif
#endif
