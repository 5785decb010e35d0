/* Sweep: the linear algebra along time.

   A chain of segments; segment i has the state s_i at its begin and shares the parameters p with all. With n = nx + nf,
     least squares rows of segment i:      J_i (s_i, p) + r_i
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i
   (all as increments). From the last segment to the first, the rows that the future leaves behind are carried through
   the link and joined with the segment's own rows by Householder reflections. What remains, T, is the triangular factor
   of 'the cost from here to the end' in (s_i, p | right-hand side): square-root form, no normal equations, and time and
   memory linear in the number of segments. All matrices stand row by row. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 48 /* rows reflected at a time; they stay in the first-level cache */
#define MOST_GROWTH 1e4 /* of a state within one group; beyond it the carried rows would lose digits */

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

/* T: (n + 1, n + 1), the triangular factor of the whole chain in (s_0, p | right-hand side). weight and rhs:
   (nodes, ny); a row of weight 0 is not measured. Short segments are taken together, forwards, until they fill a block of
   rows or what they carry grows: fewer reflections, and the same answer. Returns 0, or 1 where memory is out. */
int dynident_sweep_factor(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                          const double *weight, const double *rhs, const double *E, const double *c, double *T) {
  const int n = nx + nf, w = n + 1;
  long long end = segments, begin, i, k;
  int a, b, l, y, rows;
  double *B = malloc(sizeof(double) * (size_t)(BLOCK + nx) * w);
  double *dot = malloc(sizeof(double) * w);
  double *S = malloc(sizeof(double) * (size_t)nx * w);
  double *N = malloc(sizeof(double) * (size_t)nx * w);
  long long *groups = malloc(sizeof(long long) * (segments + 1)), count = 0;
  if (!B || !dot || !S || !N || !groups) { free(B); free(dot); free(S); free(N); free(groups); return 1; }
  memset(T, 0, sizeof(double) * w * w);
  /* where the groups begin: links are multiplied forwards while they stay small */
  groups[count++] = 0;
  {
    double growth = 1;
    long long held = 0;
    for (i = 0; i < segments; i++) {
      double norm = 0;
      held += (first[i + 1] - first[i]) * ny;
      for (a = 0; a < nx; a++) {
        double s = 0;
        for (l = 0; l < nx; l++) s += fabs(E[(i * nx + a) * n + l]);
        if (s > norm) norm = s;
      }
      growth *= norm > 1 ? norm : 1;
      if (i + 1 < segments && (held >= BLOCK || growth > MOST_GROWTH)) { groups[count++] = i + 1; held = 0; growth = 1; }
    }
  }
  while (count--) {
    begin = groups[count];
    rows = 0;
    /* the future's rows in the state at `end` wait in the first nx rows of T; they leave, and come back through the group */
    memcpy(N, T, sizeof(double) * nx * w);
    memset(T, 0, sizeof(double) * nx * w);
    memset(S, 0, sizeof(double) * nx * w); /* state at the segment's begin by (state at the group's begin, p | 1) */
    for (a = 0; a < nx; a++) S[a * w + a] = 1;
    for (i = begin; i < end; i++) {
      const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
      for (k = first[i]; k < stop; k++)
        for (y = 0; y < ny; y++) {
          const double g = weight[k * ny + y];
          const double *restrict row = J + (k * ny + y) * n;
          double *restrict to = B + rows * w;
          if (g == 0) continue;
          for (b = 0; b < nx; b++) to[b] = 0;
          for (b = nx; b < n; b++) to[b] = g * row[b];
          to[n] = rhs[k * ny + y];
          for (l = 0; l < nx; l++) {
            const double f = g * row[l];
            const double *restrict s = S + l * w;
            if (f == 0) continue;
            for (b = 0; b < w; b++) to[b] += f * s[b];
          }
          if (++rows == BLOCK) { join(T, B, rows, w, dot); rows = 0; }
        }
      if (i < segments - 1) { /* S <- E (S, p) + c */
        double *next = B + rows * w; /* room for nx rows is kept behind the block */
        for (a = 0; a < nx; a++) {
          const double *restrict e = E + (i * nx + a) * n;
          double *restrict to = next + a * w;
          for (b = 0; b < nx; b++) to[b] = 0;
          for (b = nx; b < n; b++) to[b] = e[b];
          to[n] = c[i * nx + a];
          for (l = 0; l < nx; l++) {
            const double f = e[l];
            const double *restrict s = S + l * w;
            for (b = 0; b < w; b++) to[b] += f * s[b];
          }
        }
        memcpy(S, next, sizeof(double) * nx * w);
      }
    }
    if (end < segments) /* carry the future through the group's link */
      for (a = 0; a < nx; a++) {
        double *restrict to = B + rows * w;
        for (b = 0; b < nx; b++) to[b] = 0;
        for (b = nx; b < w; b++) to[b] = N[a * w + b];
        for (l = a; l < nx; l++) {
          const double f = N[a * w + l];
          const double *restrict s = S + l * w;
          for (b = 0; b < w; b++) to[b] += f * s[b];
        }
        rows++;
      }
    if (rows) join(T, B, rows, w, dot);
    end = begin;
  }
  free(B); free(dot); free(S); free(N); free(groups);
  return 0;
}

/* The gradient in (s_0, p) of half the sum of squares for other right-hand sides and defects, nodes eliminated: follow the
   defects forwards, then the derivatives backwards. ds: room for (segments, nx). */
void dynident_sweep_gradient(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                             const double *weight, const double *rhs, const double *E, const double *c, double *ds,
                             double *g, double *work) {
  const int n = nx + nf;
  long long i, k;
  int b, l, y;
  memset(ds, 0, sizeof(double) * nx);
  memset(work, 0, sizeof(double) * (n > 0 ? n : 1));
  dynident_sweep_expand(segments, nx, nf, E, c, work, ds);
  for (b = 0; b < n; b++) g[b] = 0;
  for (i = segments - 1; i >= 0; i--) {
    const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
    if (i < segments - 1) { /* g <- [E; 0 I]' g */
      const double *restrict Ei = E + i * nx * n;
      memcpy(work, g, sizeof(double) * nx);
      for (b = 0; b < nx; b++) g[b] = 0;
      for (l = 0; l < nx; l++)
        for (b = 0; b < n; b++) g[b] += Ei[l * n + b] * work[l];
    }
    for (k = first[i]; k < stop; k++)
      for (y = 0; y < ny; y++) {
        const double f = weight[k * ny + y];
        const double *restrict row = J + (k * ny + y) * n;
        double r = rhs[k * ny + y];
        if (f == 0) continue;
        for (l = 0; l < nx; l++) r += f * row[l] * ds[i * nx + l];
        for (b = 0; b < n; b++) g[b] += f * r * row[b];
      }
  }
}
