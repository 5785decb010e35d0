/* Collocate: all intervals of a record at once; the states at the nodes are given, not followed.

   Stands behind propagate.c and uses its functions. For each interval k, with the states X[k], X[k+1] and, for an implicit
   scheme, its stages Z[k]:
     correction   what the stages must change to meet their equations, at fixed state and parameters
     stage        how they follow the state and the parameters, (NZ, NQ)
     defect       end of the interval (stages corrected) minus the state that stands there
     link         how the end follows the state at the begin and the parameters, (NX, NQ) */

static int interval(const double *t, const double *h, const double *x, const double *z, const double *u0,
                    const double *u1, const double *p, int sens, double *next, double *link, double *correction,
                    double *stage) {
  int i, j;
#if NZ > 0
  double G[NZ], Gz[NZ * NZ], K[NZ * (1 + NQ)], nz[NX * NZ], nq[NX * NQ];
  const double *arg[7] = {t, h, x, z, u0, u1, p};
  const int columns = sens ? 1 + NQ : 1;
  int l;
  { double *res[3] = {G, 0, next}; dyn_imp(arg, res, 0, 0, 0); }
  { double *res[4] = {Gz, K + NZ, nz, nq}; dyn_imp_jac(arg, res, 0, 0, 0); }
  for (i = 0; i < NZ; i++) K[i] = G[i];
  if (!finite_all(G, NZ) || !solve(Gz, K, columns)) return 0;
  for (l = 0; l < NZ; l++) {
    correction[l] = -K[l];
    for (i = 0; i < NX; i++) next[i] -= nz[i + NX * l] * K[l];
  }
  if (!sens) return 1;
  for (l = 0; l < NZ; l++)
    for (j = 0; j < NQ; j++) stage[l * NQ + j] = -K[NZ * (1 + j) + l];
  for (i = 0; i < NX; i++)
    for (j = 0; j < NQ; j++) {
      double s = nq[i + NX * j];
      for (l = 0; l < NZ; l++) s += nz[i + NX * l] * stage[l * NQ + j];
      link[i * NQ + j] = s;
    }
#else
  double phi[NX * NQ];
  const double *arg[6] = {t, h, x, u0, u1, p};
  double *res[2] = {next, phi};
  if (!sens) { dyn_step(arg, res, 0, 0, 0); return 1; }
  dyn_step_jac(arg, res, 0, 0, 0);
  for (i = 0; i < NX; i++)
    for (j = 0; j < NQ; j++) link[i * NQ + j] = phi[i + NX * j];
#endif
  return 1;
}

/* Returns -1, or the node at which something is not finite. */
long long dynident_collocate(long long nodes, const double *t, const double *u_begin, const double *u_end,
                             const double *u_node, const double *p, const double *X, const double *Z,
                             const unsigned char *wanted, int sens, double *Y, double *J, double *defect, double *link,
                             double *correction, double *stage) {
  double S[NX * NQ], next[NX];
  long long k;
  int i;
  memset(S, 0, sizeof S);
  for (i = 0; i < NX; i++) S[i * NQ + i] = 1;
  for (k = 0; k < nodes; k++) {
    if (wanted[k]) {
      observe(t + k, X + k * NX, u_node + k * NU, p, S, sens, Y + k * NY, J + k * NY * NQ);
      if (!finite_all(Y + k * NY, NY)) return k;
    }
    if (k == nodes - 1) break;
    {
      const double h = t[k + 1] - t[k];
      if (!interval(t + k, &h, X + k * NX, Z + k * NZ, u_begin + k * NU, u_end + k * NU, p, sens, next,
                    link + k * NX * NQ, correction + k * NZ, stage + k * NZ * NQ)) return k + 1;
    }
    if (!finite_all(next, NX)) return k + 1;
    for (i = 0; i < NX; i++) defect[k * NX + i] = next[i] - X[(k + 1) * NX + i];
  }
  return -1;
}
