/* Innovations of one record and their derivatives: a row is a sub-step of the filter, with the measurement at its end where
   there is one. Generated before: NP, NZ, NE, NC, dyn_step and dyn_forward. The twin is in innovations.py. */

void dynident_innovations(long long rows, long long directions, const double *columns, const double *p, const double *noise,
                          const double *dp, const double *dnoise, double *z, double *dz, double *out, double *dout,
                          double *course) {
  double next[NZ], dnext[NZ];
  for (long long k = 0; k < rows; k++) {
    const double *column = columns + k * NC;
    for (long long d = 0; d < directions; d++) {
      const double *arg[7] = {z, column, p, noise, dz + d * NZ, dp + d * NP, dnoise + d * NOISES};
      double *res[2] = {dnext, dout + (k * directions + d) * NE};
      dyn_forward(arg, res, 0, 0, 0);
      for (int i = 0; i < NZ; i++) dz[d * NZ + i] = dnext[i];
    }
    const double *arg[4] = {z, column, p, noise};
    double *res[2] = {next, out + k * NE};
    dyn_step(arg, res, 0, 0, 0);
    for (int i = 0; i < NZ; i++) course[k * NZ + i] = z[i] = next[i];
  }
}
