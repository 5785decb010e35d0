/* Smooth: the sweep along time where links may be missed, at a price.

   Stands behind sweep.c and uses its vectors. As there, but a model error w_j of unit weight may stand in each state's link:
     least squares rows of segment i:      J_i (s_i, p) + r_i,  and all w_j themselves
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i + sum over j of g_j w_j (unit vector of state k_j)
   From the last segment to the first, T is the triangle of 'the cost from here to the end' in (s, p | right-hand side).
   The errors leave one by one, in the order of their states: one reflection of the rows that state k_j reaches, which are
   the first k_j + 1. What each answers to a state, g_j w_j = -K_j (s, p | 1), is kept, with its variance, in `gains`
   (nw, n + 2). A later error's column is a multiple of its state's, before and behind each reflection, so that no columns
   for errors are carried along. Then the rows go through the link and are joined with the segment's own. As a weight grows,
   its g goes to nothing and the link to an equality: nothing is divided by it. Matrices stand row by row; inside, rows are
   filled up with zeros to whole vectors. */

static inline double dot(const double *restrict x, const double *restrict y, int n) {
  vec sum = {0};
  double rest = 0;
  int b;
  for (b = 0; b + LANES <= n; b += LANES) sum += *(const vec *)(x + b) * *(const vec *)(y + b);
  for (; b < n; b++) rest += x[b] * y[b];
  return rest + total(sum);
}

static inline void copy(const double *restrict x, double *restrict y, int n) { /* few numbers: a call of memcpy would take longer */
  int b;
  for (b = 0; b + LANES <= n; b += LANES) *(vec *)(y + b) = *(const vec *)(x + b);
  for (; b < n; b++) y[b] = x[b];
}

/* y += f' rows; rows: (count, n), `stride` numbers apart. */
static inline void add(const double *restrict f, const double *restrict rows, int count, int stride, int n, double *restrict y) {
  int b, k;
  for (b = 0; b + LANES <= n; b += LANES) {
    vec even = *(vec *)(y + b), odd = {0};
    for (k = 0; k + 1 < count; k += 2) {
      even += f[k] * *(const vec *)(rows + k * stride + b);
      odd += f[k + 1] * *(const vec *)(rows + (k + 1) * stride + b);
    }
    if (k < count) even += f[k] * *(const vec *)(rows + k * stride + b);
    *(vec *)(y + b) = even + odd;
  }
  for (; b < n; b++)
    for (k = 0; k < count; k++) y[b] += f[k] * rows[k * stride + b];
}

/* Column j of `rows` (count, W) times f, into v; returns the sum of its squares. */
static inline double column(const double *restrict rows, int count, int W, int j, double f, double *restrict v) {
  double even = 0, odd = 0; /* two sums, so that one addition does not wait for the other */
  int k;
  for (k = 0; k + 1 < count; k += 2) {
    v[k] = f * rows[k * W + j];
    v[k + 1] = f * rows[(k + 1) * W + j];
    even += v[k] * v[k];
    odd += v[k + 1] * v[k + 1];
  }
  if (k < count) { v[k] = f * rows[k * W + j]; even += v[k] * v[k]; }
  return even + odd;
}

/* v' rows, in the columns of vector b. */
static inline vec gathered(const double *restrict v, const double *restrict rows, int count, int stride, int b) {
  const vec *row = (const vec *)rows + b;
  vec even = {0}, odd = {0};
  int k;
  for (k = 0; k + 1 < count; k += 2) { even += v[k] * row[k * stride]; odd += v[k + 1] * row[(k + 1) * stride]; }
  if (k < count) even += v[k] * row[k * stride];
  return even + odd;
}

/* One reflection that makes column j of `rows` (count, W) nothing and moves it into `head`; all are zero before column j.
   v: room for count numbers. */
static inline void lift(double *restrict head, double *restrict rows, int count, int W, int j, double *restrict v) {
  const int stride = W / LANES;
  const double s = column(rows, count, W, j, 1, v);
  double norm, first, factor;
  int b, k;
  if (s == 0) return;
  norm = sqrt(head[j] * head[j] + s);
  if (head[j] > 0) norm = -norm;
  first = head[j] - norm;
  factor = -1 / (norm * first);
  for (b = j / LANES; b < stride; b++) {
    vec *top = (vec *)head + b, *row = (vec *)rows + b;
    const vec sum = gathered(v, rows, count, stride, b), share = factor * (first * *top + sum);
    *top -= first * share;
    for (k = 0; k < count; k++) row[k * stride] -= v[k] * share;
  }
  head[j] = norm;
  for (k = 0; k < count; k++) rows[k * W + j] = 0;
}

/* The error of state k leaves: rows 0..k of T are those that it reaches. gain: (n + 2). v: room for k + 1 numbers. */
static inline void leave(double *restrict T, int k, double g, int n, int W, double *restrict gain, double *restrict v) {
  const int stride = W / LANES;
  const double square = 1 + column(T, k + 1, W, k, g, v), factor = 1 / (square + sqrt(square)), answer = g / square;
  int b, r;
  for (b = 0; b < stride; b++) {
    const vec sum = gathered(v, T, k + 1, stride, b), share = factor * sum, told = answer * sum;
    vec *row = (vec *)T + b;
    for (r = 0; r <= k; r++) row[r * stride] -= v[r] * share;
    if (b < stride - 1) *(vec *)(gain + b * LANES) = told;
    else for (r = 0; r <= n - b * LANES; r++) gain[b * LANES + r] = told[r];
  }
  gain[n + 1] = g * answer;
}

/* The first nx rows of T, in (state after, p | 1), as rows in (state before, p | 1). E: (nx, n), c: (nx). */
static inline void through_link(const double *restrict T, const double *E, const double *c, int nx, int n, int W,
                         double *restrict to) {
  int a, b;
  for (a = 0; a < nx; a++, T += W, to += W) {
    copy(T, to, W);
    for (b = 0; b < nx; b++) to[b] = 0;
    add(T, E, nx, n, n, to);
    to[n] += dot(T, c, nx);
  }
}

/* T: (n + 1, n + 1) of the whole chain in (s_0, p | right-hand side); triangles: (segments, n, n), those of 'from here to
   the end'; missed: (nw) the states k_j, from the first on; G: (segments - 1, nw). Returns 0, or 1 where memory is out. */
int dynident_smooth_factor(long long segments, const long long *first, int nx, int nf, int ny, int nw, const double *J,
                           const double *weight, const double *rhs, const double *E, const double *c,
                           const long long *missed, const double *G, double *T, double *gains, double *triangles) {
  const int n = nx + nf, W = (n + LANES) / LANES * LANES;
  double *room = calloc((size_t)W * (n + 1 + nx + BLOCK) + nx + BLOCK, sizeof(double));
  double *U = room, *rows = U + (n + 1) * W, *v = rows + (nx + BLOCK) * W;
  long long i, k;
  int a, j;
  if (!room) return 1;
  for (i = segments - 1; i >= 0; i--) {
    const long long end = (first[i + 1] + (i == segments - 1)) * ny;
    int begin = 0, count = 0; /* of the rows: the first `begin` are of the future */
    if (i < segments - 1) {
      for (j = 0; j < nw; j++) leave(U, (int)missed[j], G[i * nw + j], n, W, gains + (i * nw + j) * (n + 2), v);
      through_link(U, E + i * nx * n, c + i * nx, nx, n, W, rows);
      begin = count = nx;
    }
    for (k = first[i] * ny; k < end || begin; k++) {
      if (k < end && weight[k] != 0) {
        double *row = rows + count++ * W;
        for (a = n; a < W; a++) row[a] = 0;
        for (a = 0; a < n; a++) row[a] = weight[k] * J[k * n + a];
        row[n] = rhs[k];
      }
      if (k + 1 < end && count < nx + BLOCK) continue;
      for (j = 0; j < begin; j++) lift(rows + j * W, rows + (j + 1) * W, count - j - 1, W, j, v);
      copy(rows, U, begin * W);
      for (j = begin; j <= n; j++) lift(U + j * W, rows + begin * W, count - begin, W, j, v);
      begin = count = 0;
    }
    for (a = 0; a < n; a++) copy(U + a * W, triangles + (i * n + a) * n, n);
  }
  for (a = 0; a <= n; a++) copy(U + a * W, T + a * (n + 1), n + 1);
  free(room);
  return 0;
}

/* The gradient g in (s_0, p) for other right-hand sides and defects, with the derivatives at hand, and what each error then
   answers to no state at all: lacks (segments - 1, nw), such that g_j w_j = -K_j (s, p) - lack. work: room for nx + nw. */
void dynident_smooth_back(long long segments, const long long *first, int nx, int nf, int ny, int nw, const double *J,
                          const double *weight, const double *rhs, const double *E, const double *c,
                          const long long *missed, const double *gains, const double *triangles, double *g, double *lacks,
                          double *work) {
  const int n = nx + nf;
  double *pulls = work + nx;
  long long i, k;
  int a, j, l;
  memset(g, 0, sizeof(double) * n);
  for (i = segments - 1; i >= 0; i--) {
    const long long stop = (first[i + 1] + (i == segments - 1)) * ny;
    if (i < segments - 1) {
      const double *R = triangles + (i + 1) * n * n, *gain = gains + i * nw * (n + 2);
      for (a = 0; a < nx; a++) work[a] = dot(R + a * n + a, c + i * nx + a, nx - a);
      add(work, R, nx, n, n, g);
      for (j = 0; j < nw; j++) {
        double pull = g[missed[j]];
        for (l = 0; l < j; l++) pull -= gain[l * (n + 2) + missed[j]] * pulls[l];
        pulls[j] = pull;
      }
      for (j = 0; j < nw; j++) { /* the defect is among the states that K_j sees */
        lacks[i * nw + j] = gain[j * (n + 2) + n + 1] * pulls[j] - dot(gain + j * (n + 2), c + i * nx, nx);
        pulls[j] = -pulls[j];
      }
      add(pulls, gain, nw, n + 2, n, g);
      for (a = 0; a < nx; a++) { work[a] = g[a]; g[a] = 0; }
      add(work, E + i * nx * n, nx, n, n, g);
    }
    for (k = first[i] * ny; k < stop; k++) {
      const double f = weight[k] * rhs[k];
      if (weight[k] != 0) add(&f, J + k * n, 1, n, n, g);
    }
  }
}

/* Increments of all segment states, model errors chosen best; ds: (segments, nx), ds[0] given. work: room for n + nw. */
void dynident_smooth_expand(long long segments, int nx, int nf, int nw, const double *E, const double *c,
                            const long long *missed, const double *gains, const double *lacks, const double *dp, double *ds,
                            double *work) {
  const int n = nx + nf;
  double *errors = work + n;
  long long i;
  int a, j, l;
  memcpy(work, ds, sizeof(double) * nx);
  memcpy(work + nx, dp, sizeof(double) * nf);
  for (i = 0; i + 1 < segments; i++) {
    const double *gain = gains + i * nw * (n + 2);
    double *next = ds + (i + 1) * nx;
    for (a = 0; a < nx; a++) next[a] = c[i * nx + a] + dot(E + (i * nx + a) * n, work, n);
    for (a = 0; a < nx; a++) work[a] = next[a];
    for (j = 0; j < nw; j++) errors[j] = lacks[i * nw + j] + dot(gain + j * (n + 2), work, n);
    for (j = nw - 2; j >= 0; j--) /* an error sees what the later ones did to their states */
      for (l = nw - 1; l > j; l--) errors[j] -= gain[j * (n + 2) + missed[l]] * errors[l];
    for (j = 0; j < nw; j++) next[missed[j]] = work[missed[j]] -= errors[j];
  }
}
