/* Collocate: all intervals of a record at once; the states at the nodes are given, not followed.

   Stands behind propagation.c and uses its functions. For each interval k, with the states X[k], X[k+1] and, for an implicit
   scheme, its stages Z[k]:
     correction   what the stages must change to meet their equations, at fixed state and parameters
     stage        how they follow the state and the parameters, (NZ, NQ)
     defect       end of the interval (stages corrected) minus the state that stands there
     link         how the end follows the state at the begin and the parameters, (NX, NQ) */

#if DERIVATIVES
#if STAGES > 0
/* One column more than unknowns: the first is the correction, and what it does to the end. */
INLINE int interval(double t, double h, const double *x, const double *z, const double *u0, const double *u1, Parameters p,
                    int sens, double *S, MEMORY *memory, double *next, double *link, double *correction, double *stage) {
  const int w = sens ? PADDED(1 + NQ) : PADDED(1), m = sens ? 1 + NX : -1;
  double k[RATES * NX], G[NZ];
  const double *Z = memory->chain;
  int i;
  rates_q(t, h, x, z, u0, u1, p, k, memory->J);
  stage_equations(h, 1, x, z, k, G);
  if (!finite_all(G, NZ) || !newton_factor(h, memory)) return 0;
  memset(S, 0, BLOCK(w) * sizeof(double));
  for (i = 0; i < NX && sens; i++) S[i * w + 1 + i] = 1;
  chain(h, S, w, m, memory, G, S);
  next_state(h, 1, x, z, k, next);
  for (i = 0; i < NX; i++) {
    next[i] += S[i * w];
    if (sens) memcpy(link + i * NQ, S + i * w + 1, NQ * sizeof(double));
  }
  for (i = 0; i < NZ; i++) {
    correction[i] = Z[i * w];
    if (sens) memcpy(stage + i * NQ, Z + i * w + 1, NQ * sizeof(double));
  }
  return 1;
}
#else
INLINE int interval(double t, double h, const double *x, const double *z, const double *u0, const double *u1, Parameters p,
                    int sens, double *S, MEMORY *memory, double *next, double *link, double *correction, double *stage) {
  const int w = PADDED(NQ);
  int i;
  memcpy(next, x, NX * sizeof(double));
  if (!sens) return step(t, h, next, u0, u1, p);
  memset(S, 0, NX * w * sizeof(double));
  for (i = 0; i < NX; i++) S[i * w + i] = 1;
  step_q(t, h, next, u0, u1, p, S, w, NX, *memory);
  for (i = 0; i < NX; i++) memcpy(link + i * NQ, S + i * w, NQ * sizeof(double));
  return 1;
}
#endif

/* Returns -1, or the node at which something is not finite, or LLONG_MIN + node where the algebraic equations have no solution. */
long long dynident_collocate(long long nodes, const double *t, const double *u_begin, const double *u_end,
                             const double *u_node, const double *p, const double *X, const double *Z,
                             const unsigned char *wanted, int sens, double *Y, double *J, double *defect, double *link,
                             double *correction, double *stage) {
  const int w = PADDED(NQ);
  PREPARE(p)
  double *one, *D, next[NX];
  long long k, bad = -1;
  int i;
  MEMORY memory;
#if WORK <= ON_STACK
  double work[SIZE(WORK)];
#else
  double *work = malloc(sizeof(double) * (WORK));
  if (!work) return 0;
#endif
  TAKE(&memory, work);
  one = work + (WORK) - NX * w;
  D = one - NY * w;
  memset(one, 0, NX * w * sizeof(double));
  for (i = 0; i < NX; i++) one[i * w + i] = 1;
  BEGIN(&memory, w);
  for (k = 0; k < nodes; k++) {
    if (wanted[k]) {
      if (sens) {
        outputs_q(t + k, X + k * NX, u_node + k * NU, PREPARED(p), one, w, NX, Y + k * NY, D);
        for (i = 0; i < NY; i++) memcpy(J + (k * NY + i) * NQ, D + i * w, NQ * sizeof(double));
      } else outputs(t + k, X + k * NX, u_node + k * NU, PREPARED(p), Y + k * NY);
      if (!finite_all(Y + k * NY, NY)) { bad = k; break; }
    }
    if (k == nodes - 1) break;
    bad = k + 1;
#define INTERVAL(s) interval(t[k], t[k + 1] - t[k], X + k * NX, Z + k * NZ, u_begin + k * NU, u_end + k * NU, PREPARED(p), s, work + STEP_WORK, \
                             &memory, next, link + k * NX * NQ, correction + k * NZ, stage + k * NZ * NQ)
    if (!(sens ? INTERVAL(1) : INTERVAL(0))) break;
    if (!finite_all(next, NX)) break;
    bad = -1;
    for (i = 0; i < NX; i++) defect[k * NX + i] = next[i] - X[(k + 1) * NX + i];
  }
#if WORK > ON_STACK
  free(work);
#endif
  return ANSWER(bad, bad);
}
#endif
