/* Smooth: the sweep along time where links may be missed, at a price.

   Stands behind sweep.c and uses its pile. As there, but a model error w_i of unit weight stands in each link:
     least squares rows of segment i:      J_i (s_i, p) + r_i,  and w_i itself
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i + G_i w_i
   From the last segment to the first: the future's rows are carried through the link and joined with the rows of w_i and
   of the segment. The first nw rows of the triangle say which w_i is best for a given (s_i, p); they are kept, in `gains`
   (nw, nw + n + 1). What remains is the cost from here to the end in (s_i, p | right-hand side). As a weight grows, its
   column of G goes to nothing and the link to an equality: nothing is divided by it. Matrices stand row by row. */

/* Join the waiting rows as `join` does, but only as far down as a column reaches: a model error of one state is seen by the
   future's rows up to that state, and by no measurement. */
static void join_as_far(Pile *pile) {
  const int count = 2 * ((pile->rows + 2 * LANES - 1) / (2 * LANES));
  int j, k;
  for (j = 0; j < pile->w; j++)
    for (k = pile->rows; k < count * LANES; k++) pile->B[j * BLOCK + k] = 0;
  for (j = 0; j < pile->w; j++) {
    int last = pile->rows;
    while (last && pile->B[j * BLOCK + last - 1] == 0) last--;
    if (last) reflect(pile, j, 2 * ((last + 2 * LANES - 1) / (2 * LANES)));
  }
  pile->rows = 0;
}

/* The segment's own rows, in the columns from `skip` on. */
static void own_rows(Pile *pile, int skip, long long begin, long long end, int ny, int n, const double *J,
                     const double *weight, const double *rhs, double *row) {
  long long k;
  int b;
  for (k = begin * ny; k < end * ny; k++) {
    if (weight[k] == 0) continue;
    for (b = 0; b < skip; b++) row[b] = 0;
    for (b = 0; b < n; b++) row[skip + b] = weight[k] * J[k * n + b];
    row[skip + n] = rhs[k];
    put(pile, row);
  }
}

/* A row (state, p | 1) of the future in (w, state before, p | 1). */
static void linked(const double *e, const double *E, const double *c, const double *G, int nx, int nf, int nw,
                   double *row) {
  const int n = nx + nf;
  int b, l;
  for (b = 0; b < nw + nx; b++) row[b] = 0;
  for (b = nx; b <= n; b++) row[nw + b] = e[b];
  for (l = 0; l < nx; l++) {
    const double f = e[l];
    if (f == 0) continue;
    for (b = 0; b < nw; b++) row[b] += f * G[l * nw + b];
    for (b = 0; b < n; b++) row[nw + b] += f * E[l * n + b];
    row[nw + n] += f * c[l];
  }
}

/* T: (n + 1, n + 1) of the whole chain in (s_0, p | right-hand side); triangles: (segments, n, n), those of 'from here to
   the end'. Returns 0, or 1 where memory is out. */
int dynident_smooth_factor(long long segments, const long long *first, int nx, int nf, int ny, int nw, const double *J,
                           const double *weight, const double *rhs, const double *E, const double *c, const double *G,
                           double *T, double *gains, double *triangles) {
  const int n = nx + nf, w = n + 1, wide = nw + n + 1;
  long long i;
  int a;
  double *room = malloc(sizeof(double) * (size_t)wide * (BLOCK + wide + 1));
  double *big = room + BLOCK * wide, *row = big + wide * wide;
  Pile pile = {big, room, wide, 0};
  if (!room) return 1;
  for (i = segments - 1; i >= 0; i--) {
    const int skip = i == segments - 1 ? 0 : nw; /* the last segment has no link */
    memset(big, 0, sizeof(double) * wide * wide);
    pile.w = skip + n + 1;
    for (a = 0; a < skip; a++) big[a * pile.w + a] = 1;
    if (skip) {
      for (a = nx; a <= n; a++) memcpy(big + (nw + a) * wide + nw + a, T + a * w + a, sizeof(double) * (w - a));
      for (a = 0; a < nx; a++) { linked(T + a * w, E + i * nx * n, c + i * nx, G + i * nx * nw, nx, nf, nw, row); put(&pile, row); }
    }
    own_rows(&pile, skip, first[i], first[i + 1] + (i == segments - 1), ny, n, J, weight, rhs, row);
    if (pile.rows) join_as_far(&pile);
    if (skip) memcpy(gains + i * nw * wide, big, sizeof(double) * nw * wide);
    memset(T, 0, sizeof(double) * w * w);
    for (a = 0; a < w; a++) memcpy(T + a * w + a, big + (skip + a) * pile.w + skip + a, sizeof(double) * (w - a));
    for (a = 0; a < n; a++) memcpy(triangles + (i * n + a) * n, T + a * w, sizeof(double) * n);
  }
  free(room);
  return 0;
}

/* The gradient g in (s_0, p) for other right-hand sides and defects, with the derivatives at hand, and what each model
   error then lacks: lacks (segments - 1, nw), such that Rw w + S (s, p) + lacks = 0. work: room for 2 n. */
void dynident_smooth_back(long long segments, const long long *first, int nx, int nf, int ny, int nw, const double *J,
                          const double *weight, const double *rhs, const double *E, const double *c, const double *G,
                          const double *gains, const double *triangles, double *g, double *lacks, double *work) {
  const int n = nx + nf, wide = nw + n + 1;
  long long i, k;
  int a, b, y;
  double *v = work, *moved = work + n;
  for (b = 0; b < n; b++) g[b] = 0;
  for (i = segments - 1; i >= 0; i--) {
    const long long stop = first[i + 1] + (i == segments - 1);
    if (i < segments - 1) {
      const double *R = triangles + (i + 1) * n * n, *Ei = E + i * nx * n, *Gi = G + i * nx * nw;
      const double *gain = gains + i * nw * wide;
      double *lack = lacks + i * nw;
      for (a = 0; a < n; a++) {
        double s = 0;
        for (b = a; b < nx; b++) s += R[a * n + b] * c[i * nx + b];
        moved[a] = s;
      }
      for (b = 0; b < n; b++) {
        double s = g[b];
        for (a = 0; a <= b; a++) s += R[a * n + b] * moved[a];
        v[b] = s;
      }
      for (b = 0; b < nw; b++) {
        double s = 0;
        for (a = 0; a < nx; a++) s += Gi[a * nw + b] * v[a];
        for (a = 0; a < b; a++) s -= gain[a * wide + b] * lack[a];
        lack[b] = s / gain[b * wide + b];
      }
      for (b = 0; b < n; b++) {
        double s = b < nx ? 0 : v[b];
        for (a = 0; a < nx; a++) s += Ei[a * n + b] * v[a];
        for (a = 0; a < nw; a++) s -= gain[a * wide + nw + b] * lack[a];
        g[b] = s;
      }
    }
    for (k = first[i]; k < stop; k++)
      for (y = 0; y < ny; y++) {
        const double f = weight[k * ny + y];
        if (f == 0) continue;
        for (b = 0; b < n; b++) g[b] += f * rhs[k * ny + y] * J[(k * ny + y) * n + b];
      }
  }
}

/* Increments of all segment states, model errors chosen best; ds: (segments, nx), ds[0] given. work: room for nw. */
void dynident_smooth_expand(long long segments, int nx, int nf, int nw, const double *E, const double *c,
                            const double *G, const double *gains, const double *lacks, const double *dp, double *ds,
                            double *work) {
  const int n = nx + nf, wide = nw + n + 1;
  long long i;
  int a, l;
  for (i = 0; i + 1 < segments; i++) {
    const double *gain = gains + i * nw * wide, *s = ds + i * nx;
    for (a = nw - 1; a >= 0; a--) {
      const double *row = gain + a * wide;
      double sum = -lacks[i * nw + a];
      for (l = 0; l < nx; l++) sum -= row[nw + l] * s[l];
      for (l = 0; l < nf; l++) sum -= row[nw + nx + l] * dp[l];
      for (l = a + 1; l < nw; l++) sum -= row[l] * work[l];
      work[a] = sum / row[a];
    }
    for (a = 0; a < nx; a++) {
      const double *row = E + (i * nx + a) * n;
      double sum = c[i * nx + a];
      for (l = 0; l < nx; l++) sum += row[l] * s[l];
      for (l = 0; l < nf; l++) sum += row[nx + l] * dp[l];
      for (l = 0; l < nw; l++) sum += G[(i * nx + a) * nw + l] * work[l];
      ds[(i + 1) * nx + a] = sum;
    }
  }
}
