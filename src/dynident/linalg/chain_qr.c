/* Sweep: the linear algebra along time. Stands behind vectors.c and householder.c.

   A chain of segments; segment i has the state s_i at its begin and shares the parameters p with all. With n = nx + nf,
     least squares rows of segment i:      J_i (s_i, p) + r_i
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i
   (all as increments). From the last segment to the first, the rows that the future leaves behind are carried through
   the link and joined with the segment's own rows by Householder reflections. What remains, T, is the triangular factor
   of 'the cost from here to the end' in (s_i, p | right-hand side): square-root form, no normal equations, and time and
   memory linear in the number of segments. All matrices stand row by row. */

#define MOST_GROWTH 1e4 /* of a state within one group; beyond it the carried rows would lose digits */

/* A row in (state, p | 1) as one in what S gives the state by: to = weight (e_x S + (0, e_p | 0)) + (0, 0 | last). */
static void through(const double *restrict e, double last, double weight, const double *restrict S, int nx, int n,
                    double *restrict to) {
  int b, l;
  for (b = 0; b < nx; b++) to[b] = 0;
  for (b = nx; b < n; b++) to[b] = weight * e[b];
  to[n] = last;
  for (l = 0; l < nx; l++) {
    const double f = weight * e[l];
    const double *restrict s = S + l * (n + 1);
    if (f == 0) continue;
    for (b = 0; b <= n; b++) to[b] += f * s[b];
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

/* Where groups of segments begin: links are multiplied forwards while they stay small and the rows fill no block. */
static long long group_starts(long long segments, const long long *first, int nx, int n, int ny, const double *E,
                              long long *groups) {
  long long count = 0, held = 0, i;
  double growth = 1;
  int a, l;
  groups[count++] = 0;
  for (i = 0; i + 1 < segments; i++) {
    double norm = 1;
    held += (first[i + 1] - first[i]) * ny;
    for (a = 0; a < nx; a++) {
      double s = 0;
      for (l = 0; l < nx; l++) s += fabs(E[(i * nx + a) * n + l]);
      if (s > norm) norm = s;
    }
    growth *= norm;
    if (held >= BLOCK || growth > MOST_GROWTH) { groups[count++] = i + 1; held = 0; growth = 1; }
  }
  return count;
}

/* T: (n + 1, n + 1), the triangular factor of the whole chain in (s_0, p | right-hand side). weight and rhs:
   (nodes, ny); a row of weight 0 is not measured. Short segments are taken together, forwards, until they fill a block of
   rows or what they carry grows: fewer reflections, and the same answer. Returns 0, or 1 where memory is out. */
int dynident_sweep_factor(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                          const double *weight, const double *rhs, const double *E, const double *c, double *T) {
  const int n = nx + nf, w = n + 1;
  long long end = segments, begin, count, i, k;
  int a;
  double *room = malloc(sizeof(double) * (size_t)w * (BLOCK + 3 * nx + 1));
  long long *groups = malloc(sizeof(long long) * (segments + 1));
  double *S = room + BLOCK * w, *next = S + nx * w, *future = next + nx * w, *row = future + nx * w;
  Pile pile = {T, room, w, 0};
  if (!room || !groups) { free(room); free(groups); return 1; }
  memset(T, 0, sizeof(double) * w * w);
  count = group_starts(segments, first, nx, n, ny, E, groups);
  while (count--) {
    begin = groups[count];
    /* the future's rows in the state at `end` stand first in T; they leave, and come back through the group */
    memcpy(future, T, sizeof(double) * nx * w);
    memset(T, 0, sizeof(double) * nx * w);
    memset(S, 0, sizeof(double) * nx * w); /* state at the segment's begin by (state at the group's begin, p | 1) */
    for (a = 0; a < nx; a++) S[a * w + a] = 1;
    for (i = begin; i < end; i++) {
      const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
      for (k = first[i] * ny; k < stop * ny; k++) {
        if (weight[k] == 0) continue;
        through(J + k * n, rhs[k], weight[k], S, nx, n, row);
        put(&pile, row);
      }
      if (i == segments - 1) break;
      for (a = 0; a < nx; a++) through(E + (i * nx + a) * n, c[i * nx + a], 1, S, nx, n, next + a * w);
      memcpy(S, next, sizeof(double) * nx * w);
    }
    for (a = 0; a < nx && end < segments; a++) {
      through(future + a * w, future[a * w + n], 1, S, nx, n, row);
      put(&pile, row);
    }
    if (pile.rows) join(&pile);
    end = begin;
  }
  free(room); free(groups);
  return 0;
}

/* The same of each segment for itself, as if none were linked: T (segments, n + 1, n + 1). */
int dynident_sweep_segments(long long segments, const long long *first, int nx, int nf, int ny, const double *J,
                            const double *weight, const double *rhs, double *T) {
  const int n = nx + nf, w = n + 1;
  long long i, k;
  double *room = malloc(sizeof(double) * (size_t)w * (BLOCK + 1)), *row = room + BLOCK * w;
  if (!room) return 1;
  memset(T, 0, sizeof(double) * segments * w * w);
  for (i = 0; i < segments; i++) {
    const long long stop = i == segments - 1 ? first[i + 1] + 1 : first[i + 1];
    Pile pile = {T + (size_t)i * w * w, room, w, 0};
    int b;
    for (k = first[i] * ny; k < stop * ny; k++) {
      if (weight[k] == 0) continue;
      for (b = 0; b < n; b++) row[b] = weight[k] * J[k * n + b];
      row[n] = rhs[k];
      put(&pile, row);
    }
    if (pile.rows) join(&pile);
  }
  free(room);
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
