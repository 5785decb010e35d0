/* Hand loop: one Gauss-Newton pass as one would write it for this one problem; the yardstick for the general code.

   In front of this stand the generated dyn_step_jac and dyn_out_jac, and NX NU NP NY (all parameters are free). */

#define NQ (NX + NP)

/* Residuals' sum of squares; A becomes J'J (upper half) and g becomes J'r for r = (y - measured) * weight. */
double hand_pass(int samples, const double *t, const double *u, const double *p, const double *x0, const double *measured,
                 const double *weight, double *A, double *g) {
  double x[NX], next[NX], S[NX * NQ], T[NX * NQ], phi[NX * NQ], y[NY], d[NY * NQ], row[NQ], cost = 0;
  int i, j, k, l;
  for (i = 0; i < NX; i++) x[i] = x0[i];
  for (i = 0; i < NX * NQ; i++) S[i] = 0;
  for (i = 0; i < NX; i++) S[i * NQ + i] = 1;
  for (i = 0; i < NQ * NQ; i++) A[i] = 0;
  for (i = 0; i < NQ; i++) g[i] = 0;
  for (k = 0; k < samples; k++) {
    const double *out_arg[4] = {t + k, x, u + k * NU, p};
    double *out_res[2] = {y, d};
    dyn_out_jac(out_arg, out_res, 0, 0, 0);
    for (i = 0; i < NY; i++) {
      const double w = weight[k * NY + i], r = (y[i] - measured[k * NY + i]) * w;
      cost += r * r;
      for (j = 0; j < NX; j++) row[j] = 0;
      for (j = NX; j < NQ; j++) row[j] = d[i + NY * j];
      for (l = 0; l < NX; l++) for (j = 0; j < NQ; j++) row[j] += d[i + NY * l] * S[l * NQ + j];
      for (j = 0; j < NQ; j++) row[j] *= w;
      for (j = 0; j < NQ; j++) {
        g[j] += row[j] * r;
        for (l = j; l < NQ; l++) A[j * NQ + l] += row[j] * row[l];
      }
    }
    if (k == samples - 1) break;
    {
      const double h = t[k + 1] - t[k];
      const double *arg[6] = {t + k, &h, x, u + k * NU, u + (k + 1) * NU, p};
      double *res[2] = {next, phi};
      dyn_step_jac(arg, res, 0, 0, 0);
      for (i = 0; i < NX; i++) {
        for (j = 0; j < NX; j++) T[i * NQ + j] = 0;
        for (j = NX; j < NQ; j++) T[i * NQ + j] = phi[i + NX * j];
        for (l = 0; l < NX; l++) for (j = 0; j < NQ; j++) T[i * NQ + j] += phi[i + NX * l] * S[l * NQ + j];
        x[i] = next[i];
      }
      for (i = 0; i < NX * NQ; i++) S[i] = T[i];
    }
  }
  return cost;
}
