/* Radau 5 through events: a step of radau5.c that may end anywhere inside of the one that was accepted, and its derivatives.

   Stands behind radau5.c and in front of event_location.c. A step from s0 to s1 of an interval has the derivatives by its state
   and the free parameters as in `chain`, and by its two ends: its stages solve
     z_i = x + sum_j a_ij (s1 - s0) f(s0 + c_j (s1 - s0), z_j),
   so that the right-hand side moves with s0 by -f_j + h (1 - c_j) df_j/ds and with s1 by f_j + h c_j df_j/ds. */

typedef struct {
  Radau radau;
  Modal modal;
  Attempt tried;
  double from; /* where in the interval the attempt begins */
  int known;   /* an attempt was accepted and begins there */
} Walk;

/* Stages of a shorter step, on the polynomial of the one that was accepted. */
INLINE void interpolated(const Walk *walk, double h, const double *x, double *z) {
  int i, j, s;
  for (s = 0; s < 3; s++) {
    const double at = POINT[s] * h / walk->tried.h;
    double weight[3];
    for (j = 0; j < 3; j++) {
      weight[j] = at / POINT[j];
      for (i = 0; i < 3; i++) if (i != j) weight[j] *= (at - POINT[i]) / (POINT[j] - POINT[i]);
    }
    for (i = 0; i < NX; i++) {
      z[s * NX + i] = x[i];
      for (j = 0; j < 3; j++) z[s * NX + i] += weight[j] * (walk->tried.z[j * NX + i] - x[i]);
    }
  }
}

/* phi (column by column) = d(next)/d(x, free p, s0, s1) of a step whose stages are solved; 0 where it has none. */
static int step_derivatives(double t, double h, const double *x, const double *z, const double *u0, const double *u1, Parameters p,
                            Newton *newton, double *phi) {
  enum { W = PADDED(NQ + 2) };
  double k[RATES * NX], S[NX * W];
  double *Z = newton->chain, *B = Z + STAGES * BLOCK(W), *K = B + STAGES * BLOCK(W);
  int i, j;
  rates_q(t, h, x, z, u0, u1, p, k, newton->J);
  if (!newton_factor(h, newton)) return 0;
  memset(K, 0, RATES * BLOCK(W) * sizeof(double));
  memset(S, 0, sizeof S);
  for (i = 0; i < NX; i++) S[i * W + i] = 1;
#define DO(e, c, fixed) {                                                                   \
    double *own = K + (e) * BLOCK(W);                                                       \
    rate_product_parameters(newton->J + (e) * NJS, W, NX, own); /* by time in column NQ */  \
    for (i = 0; i < BLOCK(W); i++) own[i] *= h;                                             \
    for (i = 0; i < NX; i++) {                                                              \
      const double f = k[(e) * NX + i], by_time = own[i * W + NQ];                          \
      own[i * W + NQ] = -f + (1 - (c)) * by_time;                                           \
      own[i * W + NQ + 1] = f + (c) * by_time;                                              \
    } }
  EACH_RATE(DO)
#undef DO
  stage_response(1, W, S, 0, K, Z);
  newton_solve(newton, Z, B, W);
  for (i = 0; i < NX; i++)
    for (j = 0; j < NQ + 2; j++) phi[i + NX * j] = Z[(2 * NX + i) * W + j];
  return 1;
}

/* From s0 to s1 in an interval that begins at t; not numbers where the step has no solution. */
static void modal_step(double t, double s0, double s1, const double *x, const double *u, const double *du, Walk *walk, double *next,
                       double *phi) {
  double z[NZ], u0[SIZE(NU)], u1[SIZE(NU)];
  const double h = s1 - s0;
  int a, found;
  for (a = 0; a < NU; a++) { u0[a] = u[a] + s0 * du[a]; u1[a] = u[a] + s1 * du[a]; }
  found = walk->known && walk->from == s0 && h == walk->tried.h;
  if (found) memcpy(z, walk->tried.z, sizeof z);
  else if (walk->known && walk->from == s0) interpolated(walk, h, x, z);
  else for (a = 0; a < NZ; a++) z[a] = x[a % NX];
  found = found || settled(t + s0, h, x, z, u0, u1, &walk->modal, &walk->radau);
  if (found && phi) found = step_derivatives(t + s0, h, x, z, u0, u1, &walk->modal, &walk->radau.newton, phi);
  for (a = 0; a < NX; a++) next[a] = found ? z[2 * NX + a] : NAN;
}
