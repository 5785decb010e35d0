/* The adjoint of a sample's measurements: lambda (N) and, where it is asked for, Lambda (N x N, rows W apart) from after to
   before.

   x - P lambda is the state, and P - P Lambda P its covariance, once the future is known (Bryson and Frazier's form of
   the smoother of Rauch, Tung and Striebel): no covariance is inverted, so states may be known exactly. */

INLINE void adjoint_rows(const double h[][N], const double c[][N], const double *e, int count, double *lambda,
                         double *Lambda) {
  double along[SIZE(NY)];
  int a, b, i, j;
  for (a = 0; a < count; a++) {
    along[a] = e[a];
    for (i = 0; i < N; i++) along[a] += c[a][i] * lambda[i];
  }
  for (a = 0; a < count; a++)
    for (i = 0; i < N; i++) lambda[i] -= along[a] * h[a][i];
  if (Lambda) {
    double V[SIZE(NY)][W], half[SIZE(NY)][W];
    for (a = 0; a < count; a++)
      for (i = 0; i < N; i += LANE) { /* Lambda c */
        dyn_vector sum = ZERO_VEC;
        for (j = 0; j < N; j++) sum += c[a][j] * VEC(Lambda + j * W + i);
        VEC(V[a] + i) = sum;
      }
    for (a = 0; a < count; a++) { /* half = V - (1/2) (c' V + 1) h: Lambda - h half' - half h' is what is wanted */
      for (i = 0; i < N; i += LANE) VEC(half[a] + i) = VEC(V[a] + i) - 0.5 * CONST_VEC(h[a] + i);
      for (b = 0; b < count; b++) {
        double both = 0;
        for (j = 0; j < N; j++) both += c[a][j] * V[b][j];
        for (i = 0; i < N; i += LANE) VEC(half[a] + i) -= 0.5 * both * CONST_VEC(h[b] + i);
      }
    }
    for (i = 0; i < N; i++)
      for (j = 0; j < N; j += LANE) {
        dyn_vector sum = VEC(Lambda + i * W + j);
        for (a = 0; a < count; a++) sum -= h[a][i] * VEC(half[a] + j) + half[a][i] * CONST_VEC(h[a] + j);
        VEC(Lambda + i * W + j) = sum;
      }
  }
}

static void adjoint_measurement(const dyn_smoother_data *smoother, double *lambda, double *Lambda) {
#ifdef JOINT_UPDATE /* the rows were taken at once */
  adjoint_rows(smoother->h, smoother->c, smoother->e, NY, lambda, Lambda);
#else /* one after another */
  int j;
  for (j = NY - 1; j >= 0; j--) adjoint_rows(smoother->h + j, smoother->c + j, smoother->e + j, 1, lambda, Lambda);
#endif
}
