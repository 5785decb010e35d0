/* March: integrate all segments of one record, with sensitivities, outputs and their derivatives, in one call.

   The text in front of this one defines NX NU NP NF NY NZ (states, inputs, parameters, free parameters, outputs,
   unknowns of an implicit step) and the functions
     dyn_step     (t, h, x, u0, u1, p)    -> next x                       explicit schemes
     dyn_step_jac (t, h, x, u0, u1, p)    -> next x, d next / d(x, free p)
     dyn_imp      (t, h, x, z, u0, u1, p) -> G, dG/dz, next x              implicit schemes: G(z) = 0
     dyn_imp_jac  (t, h, x, z, u0, u1, p) -> dG/dz, dG/d(x, p), dnext/dz, dnext/d(x, p)
     dyn_out      (t, x, u, p)            -> y
     dyn_out_jac  (t, x, u, p)            -> y, dy/d(x, free p)
   Matrices from these functions stand column by column; those kept here stand row by row, so that the inner loops run
   over neighbouring numbers. */

#include <math.h>
#include <string.h>

#define NQ (NX + NF)
#define SIZE(n) ((n) > 0 ? (n) : 1)
#define NEWTON_LIMIT 25
#define NEWTON_SMALL 1e-8 /* of a stage and of its first correction; the next correction is then far below rounding */
#define NEWTON_NOISE 1e-12 /* of the largest stage; a correction that small and no longer shrinking is rounding */
#define NEWTON_EXACT 1e-17 /* of a stage and of its move; a correction that small, if it were made, would change nothing */
#define NEWTON_FAST 1e-2 /* of the correction before; where they shrink like this, the next follows from the last two */

static int finite_all(const double *v, int n) {
  int i;
  for (i = 0; i < n; i++) if (!isfinite(v[i])) return 0;
  return 1;
}

/* S <- Phi_x S + [0 Phi_p] */
static void chain(const double *restrict phi, double *restrict S) {
  double T[NX * NQ];
  int i, j, l;
  for (i = 0; i < NX; i++) {
    double *restrict row = T + i * NQ;
    for (j = 0; j < NX; j++) row[j] = 0;
    for (j = NX; j < NQ; j++) row[j] = phi[i + NX * j];
    for (l = 0; l < NX; l++) {
      const double a = phi[i + NX * l];
      const double *restrict s = S + l * NQ;
      for (j = 0; j < NQ; j++) row[j] += a * s[j];
    }
  }
  memcpy(S, T, sizeof T);
}

#if NZ > 0
/* Solve A X = B for m right-hand sides (A: NZ x NZ and B: NZ x m, both column by column); B becomes X. 0 if singular. */
static int solve(double *A, double *B, int m) {
  double inverse[NZ]; /* of the pivots: they are divided by again and again */
  int i, j, k;
  for (k = 0; k < NZ; k++) {
    int pivot = k;
    for (i = k + 1; i < NZ; i++) if (fabs(A[i + NZ * k]) > fabs(A[pivot + NZ * k])) pivot = i;
    if (!(fabs(A[pivot + NZ * k]) > 0)) return 0;
    if (pivot != k) {
      for (j = k; j < NZ; j++) { double s = A[k + NZ * j]; A[k + NZ * j] = A[pivot + NZ * j]; A[pivot + NZ * j] = s; }
      for (j = 0; j < m; j++) { double s = B[k + NZ * j]; B[k + NZ * j] = B[pivot + NZ * j]; B[pivot + NZ * j] = s; }
    }
    inverse[k] = 1 / A[k + NZ * k];
    for (i = k + 1; i < NZ; i++) {
      const double f = A[i + NZ * k] * inverse[k];
      if (f == 0) continue;
      for (j = k + 1; j < NZ; j++) A[i + NZ * j] -= f * A[k + NZ * j];
      for (j = 0; j < m; j++) B[i + NZ * j] -= f * B[k + NZ * j];
    }
  }
  for (j = 0; j < m; j++)
    for (i = NZ - 1; i >= 0; i--) {
      double s = B[i + NZ * j];
      for (k = i + 1; k < NZ; k++) s -= A[i + NZ * k] * B[k + NZ * j];
      B[i + NZ * j] = s * inverse[i];
    }
  return 1;
}

/* The stages z of one implicit step by Newton's method from where they are; 0 if it does not settle.
   Corrections c, c' in a row have a next one of about c' (c'/c)^2: the last is not made where it would change nothing. */
static int root(const double **arg, const double *x, double *z) {
  double G[NZ], Gz[NZ * NZ], next[NX], before[NZ];
  double *res[3] = {G, Gz, next};
  int i, iteration, settled = 0;
  for (iteration = 0; iteration < NEWTON_LIMIT; iteration++) {
    double largest = 0;
    int open = 0, inexact = 0;
    dyn_imp(arg, res, 0, 0, 0);
    if (!finite_all(G, NZ) || !solve(Gz, G, 1)) return 0;
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
      if (c > NEWTON_SMALL * size && !noise) open = 1;
      before[i] = c;
    }
    if (!inexact) return 1;
    settled = !open;
  }
  return settled;
}

/* One implicit step. `move` is how far the stages were from x in a step of length `*length` before (0: there is none),
   and the same of this one when it returns: stages that go on as they went are close at once. 0 if it has no solution. */
static int advance(const double *t, const double *h, double *x, const double *u0, const double *u1, const double *p,
                   double *S, int sens, double *move, double *length) {
  double z[NZ], next[NX];
  const double *arg[7] = {t, h, x, z, u0, u1, p};
  const double longer = *length > 0 ? *h / *length : 0;
  int i, j, l;
  for (i = 0; i < NZ; i++) z[i] = x[i % NX] + (longer > 0 ? longer * move[i] : 0);
  if (!root(arg, x, z)) {
    if (!(longer > 0)) return 0;
    for (i = 0; i < NZ; i++) z[i] = x[i % NX];
    if (!root(arg, x, z)) return 0;
  }
  for (i = 0; i < NZ; i++) move[i] = z[i] - x[i % NX];
  *length = *h;
  { double *res[3] = {0, 0, next}; dyn_imp(arg, res, 0, 0, 0); }
  if (sens) {
    double Gz[NZ * NZ], Gq[NZ * NQ], nz[NX * NZ], phi[NX * NQ];
    double *res[4] = {Gz, Gq, nz, phi};
    dyn_imp_jac(arg, res, 0, 0, 0);
    if (!solve(Gz, Gq, NQ)) return 0; /* dz/dq = -Gz^-1 Gq */
    for (j = 0; j < NQ; j++)
      for (l = 0; l < NZ; l++) {
        const double s = Gq[l + NZ * j];
        for (i = 0; i < NX; i++) phi[i + NX * j] -= nz[i + NX * l] * s;
      }
    chain(phi, S);
  }
  memcpy(x, next, sizeof next);
  return 1;
}
#else
static int advance(const double *t, const double *h, double *x, const double *u0, const double *u1, const double *p,
                   double *S, int sens, double *move, double *length) {
  double next[NX], phi[NX * NQ];
  const double *arg[6] = {t, h, x, u0, u1, p};
  double *res[2] = {next, phi};
  if (sens) {
    dyn_step_jac(arg, res, 0, 0, 0);
    chain(phi, S);
  } else {
    dyn_step(arg, res, 0, 0, 0);
  }
  memcpy(x, next, sizeof next);
  return 1;
}
#endif

/* y and dy/d(segment's first state, free p) at one node */
static void observe(const double *t, const double *x, const double *u, const double *p, const double *restrict S,
                    int sens, double *y, double *restrict J) {
  double d[SIZE(NY * NQ)];
  const double *arg[4] = {t, x, u, p};
  double *res[2] = {y, d};
  int i, j, l;
  if (!sens) { dyn_out(arg, res, 0, 0, 0); return; }
  dyn_out_jac(arg, res, 0, 0, 0);
  for (i = 0; i < NY; i++) {
    double *restrict row = J + i * NQ;
    for (j = 0; j < NX; j++) row[j] = 0;
    for (j = NX; j < NQ; j++) row[j] = d[i + NY * j];
    for (l = 0; l < NX; l++) {
      const double a = d[i + NY * l];
      const double *restrict s = S + l * NQ;
      if (a == 0) continue;
      for (j = 0; j < NQ; j++) row[j] += a * s[j];
    }
  }
}

/* Returns -1, or the node at which a state or output is not finite (its state and outputs are then in X and Y), or
   -2 - node where an implicit step that should lead to the node has no solution.
   Segment i starts at node first[i] from nodes[i] and ends at node first[i+1]; each node's output belongs to the segment
   that starts there, the last node's to the last segment. */
long long dynident_march(long long segments, const long long *first, const double *t, const int *substeps,
                         const double *u_begin, const double *u_end, const double *u_node, const double *p,
                         const double *nodes, const unsigned char *wanted, int sens,
                         double *X, double *Y, double *J, double *X_end, double *S_end) {
  long long i, k;
  int a, m;
  double x[NX], S[NX * NQ], u0[SIZE(NU)], u1[SIZE(NU)], slope[SIZE(NU)], move[SIZE(NZ)], length;
  for (i = 0; i < segments; i++) {
    const long long last = first[i + 1];
    memcpy(x, nodes + i * NX, sizeof x);
    length = 0;
    if (sens) {
      memset(S, 0, sizeof S);
      for (a = 0; a < NX; a++) S[a * NQ + a] = 1;
    }
    for (k = first[i];; k++) {
      if (!finite_all(x, NX)) { memcpy(X + k * NX, x, sizeof x); return k; }
      if (k < last || i == segments - 1) {
        memcpy(X + k * NX, x, sizeof x);
        if (wanted[k]) {
          observe(t + k, x, u_node + k * NU, p, S, sens, Y + k * NY, J + k * NY * NQ);
          if (!finite_all(Y + k * NY, NY)) return k;
        }
      }
      if (k == last) break;
      {
        const int count = substeps[k];
        const double h = (t[k + 1] - t[k]) / count;
        for (a = 0; a < NU; a++) slope[a] = (u_end[k * NU + a] - u_begin[k * NU + a]) / count;
        for (m = 0; m < count; m++) {
          const double now = t[k] + m * h;
          for (a = 0; a < NU; a++) {
            u0[a] = u_begin[k * NU + a] + m * slope[a];
            u1[a] = u_begin[k * NU + a] + (m + 1) * slope[a];
          }
          if (!advance(&now, &h, x, u0, u1, p, S, sens, move, &length)) return -2 - (k + 1);
        }
      }
    }
    memcpy(X_end + i * NX, x, sizeof x);
    if (sens) memcpy(S_end + i * NX * NQ, S, sizeof S);
  }
  return -1;
}
