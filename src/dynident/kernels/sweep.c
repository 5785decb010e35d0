/* Sweep: the linear algebra along time.

   A chain of segments; segment i has the state s_i at its begin and shares the parameters p with all. With n = nx + nf,
     least squares rows of segment i:      J_i (s_i, p) + r_i
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i
   (all as increments). From the last segment to the first, the rows that the future leaves behind are carried through
   the link and joined with the segment's own rows by Householder reflections. What remains, T_i, is the triangular
   factor of 'the cost from here to the end' in (s_i, p | right-hand side): square-root form, no normal equations, and
   time and memory linear in the number of segments. All matrices stand row by row. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 48 /* rows reflected at a time; they stay in the first-level cache */

/* Join `rows` rows in B to the triangle T, both `w` columns wide; B is destroyed. */
static void join(double *restrict T, double *restrict B, int rows, int w, double *restrict dot) {
  int j, k, c;
  for (j = 0; j < w; j++) {
    double s = 0, head = T[j * w + j], norm, v, f;
    double *restrict top = T + j * w;
    for (k = 0; k < rows; k++) s += B[k * w + j] * B[k * w + j];
    if (s == 0) continue;
    norm = sqrt(head * head + s);
    if (head > 0) norm = -norm;
    v = head - norm;
    f = 2 / (v * v + s);
    top[j] = norm;
    for (c = j + 1; c < w; c++) dot[c] = v * top[c];
    for (k = 0; k < rows; k++) {
      const double b = B[k * w + j];
      const double *restrict row = B + k * w;
      for (c = j + 1; c < w; c++) dot[c] += b * row[c];
    }
    for (c = j + 1; c < w; c++) { dot[c] *= f; top[c] -= v * dot[c]; }
    for (k = 0; k < rows; k++) {
      const double b = B[k * w + j];
      double *restrict row = B + k * w;
      for (c = j + 1; c < w; c++) row[c] -= b * dot[c];
    }
  }
}

/* T: (segments, n + 1, n + 1). weight and rhs: (nodes, ny); a row of weight 0 is not measured. Returns 0, or 1 where
   memory is out. */
int dynident_sweep_factor(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                          const double *weight, const double *rhs, const double *E, const double *c, double *T) {
  const int n = nx + nf, w = n + 1;
  long long i, k;
  int a, b, l, y;
  double *B = malloc(sizeof(double) * (size_t)(BLOCK > w ? BLOCK : w) * w);
  double *dot = malloc(sizeof(double) * w);
  if (!B || !dot) { free(B); free(dot); return 1; }
  for (i = segments - 1; i >= 0; i--) {
    double *Ti = T + i * w * w;
    const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
    int rows = 0;
    memset(Ti, 0, sizeof(double) * w * w);
    if (i < segments - 1) { /* carry the future through the link */
      const double *Tn = Ti + w * w, *Ei = E + i * nx * n, *ci = c + i * nx;
      for (a = 0; a < w; a++) {
        double *row = B + a * w;
        memset(row, 0, sizeof(double) * w);
        for (b = nx; b < w; b++) row[b] = b >= a ? Tn[a * w + b] : 0;
        for (l = a; l < nx; l++) {
          const double t = Tn[a * w + l];
          for (b = 0; b < n; b++) row[b] += t * Ei[l * n + b];
          row[n] += t * ci[l];
        }
      }
      join(Ti, B, w, w, dot);
    }
    for (k = first[i]; k < stop; k++)
      for (y = 0; y < ny; y++) {
        const double g = weight[k * ny + y];
        const double *row = J + (k * ny + y) * n;
        if (g == 0) continue;
        for (b = 0; b < n; b++) B[rows * w + b] = g * row[b];
        B[rows * w + n] = rhs[k * ny + y];
        if (++rows == BLOCK) { join(Ti, B, rows, w, dot); rows = 0; }
      }
    if (rows) join(Ti, B, rows, w, dot);
  }
  free(B); free(dot);
  return 0;
}

/* The gradient in (s_0, p) for other right-hand sides and defects, nodes eliminated with the factors of the sweep. */
void dynident_sweep_gradient(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                             const double *weight, const double *rhs, const double *E, const double *c,
                             const double *T, double *g, double *work) {
  const int n = nx + nf, w = n + 1;
  double *m = work, *v = work + n;
  long long i, k;
  int a, b, l, y;
  for (b = 0; b < n; b++) g[b] = 0;
  for (i = segments - 1; i >= 0; i--) {
    const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
    if (i < segments - 1) {
      const double *Tn = T + (i + 1) * w * w, *Ei = E + i * nx * n, *ci = c + i * nx;
      for (a = 0; a < n; a++) { /* m = T (c, 0) */
        m[a] = 0;
        for (l = a; l < nx; l++) m[a] += Tn[a * w + l] * ci[l];
      }
      for (b = 0; b < n; b++) { /* v = g + T' m */
        v[b] = g[b];
        for (a = 0; a <= b; a++) v[b] += Tn[a * w + b] * m[a];
      }
      for (b = 0; b < n; b++) { /* g = [E; 0 I]' v */
        g[b] = b >= nx ? v[b] : 0;
        for (l = 0; l < nx; l++) g[b] += Ei[l * n + b] * v[l];
      }
    }
    for (k = first[i]; k < stop; k++)
      for (y = 0; y < ny; y++) {
        const double f = weight[k * ny + y] * rhs[k * ny + y];
        const double *row = J + (k * ny + y) * n;
        if (f == 0) continue;
        for (b = 0; b < n; b++) g[b] += f * row[b];
      }
  }
}

/* Increments of all segment states from that of the first and of the parameters; ds: (segments, nx), ds[0] given. */
void dynident_sweep_expand(long long segments, int nx, int nf, const double *E, const double *c, const double *dp,
                           double *ds) {
  const int n = nx + nf;
  long long i;
  int a, l;
  for (i = 0; i + 1 < segments; i++)
    for (a = 0; a < nx; a++) {
      const double *row = E + (i * nx + a) * n;
      double s = c[i * nx + a];
      for (l = 0; l < nx; l++) s += row[l] * ds[i * nx + l];
      for (l = 0; l < nf; l++) s += row[nx + l] * dp[l];
      ds[(i + 1) * nx + a] = s;
    }
}
