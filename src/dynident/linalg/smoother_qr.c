/* Smooth: the sweep along time where links may be missed, at a price.

   Stands behind vectors.c. As in chain_qr.c, but a model error w_j of unit weight may stand in each state's link:
     least squares rows of segment i:      J_i (s_i, p) + r_i,  and all w_j themselves
     link to the next segment:             s_{i+1} = E_i (s_i, p) + c_i + sum over j of g_j w_j (unit vector of state k_j)
   From the last segment to the first, T is the triangle of 'the cost from here to the end' in (s, p | right-hand side).
   The errors leave one by one, in the order of their states: one reflection of the rows that state k_j reaches, which are
   the first k_j + 1. What each answers to a state, g_j w_j = -K_j (s, p | 1), is kept, with its variance, in `gains`
   (nw, n + 2). A later error's column is a multiple of its state's, before and behind each reflection, so that no columns
   for errors are carried along. Then the rows go through the link and are joined with the segment's own. As a weight grows,
   its g goes to nothing and the link to an equality: nothing is divided by it. Matrices stand row by row; inside, rows are
   filled up with zeros to whole vectors.

   Compiled for one shape: NX states, of which every link leaves the last STILL as they are (drifting parameters), NF
   parameters, NY outputs, NW errors, MISSED: their states k_j with a comma behind each. Per segment there are a dozen short
   steps that wait for each other; with sizes that the compiler knows they take half to three quarters of the time. */

#define N (NX + NF)
#define M (NX - STILL) /* states that move */
#define W ((N + LANES) / LANES * LANES)
#define STRIDE (W / LANES)
#if NX <= 10
#define UNROLL _Pragma("GCC unroll 10")
#else
#define UNROLL
#endif

static const int missed[] = {MISSED 0};

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
static inline double column(const double *restrict rows, int count, int j, double f, double *restrict v) {
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
static inline vec gathered(const double *restrict v, const double *restrict rows, int count, int b) {
  const vec *row = (const vec *)rows + b;
  vec even = {0}, odd = {0};
  int k;
  for (k = 0; k + 1 < count; k += 2) { even += v[k] * row[k * STRIDE]; odd += v[k + 1] * row[(k + 1) * STRIDE]; }
  if (k < count) even += v[k] * row[k * STRIDE];
  return even + odd;
}

/* One reflection that makes column j of `rows` (count, W) nothing and moves it into `head`; all are zero before column j.
   v: room for count numbers. */
static inline void lift(double *restrict head, double *restrict rows, int count, int j, double *restrict v) {
  const double s = column(rows, count, j, 1, v);
  double norm, first, factor;
  int b, k;
  if (s == 0) return;
  norm = sqrt(head[j] * head[j] + s);
  if (head[j] > 0) norm = -norm;
  first = head[j] - norm;
  factor = -1 / (norm * first);
  for (b = j / LANES; b < STRIDE; b++) {
    vec *top = (vec *)head + b, *row = (vec *)rows + b;
    const vec sum = gathered(v, rows, count, b), share = factor * (first * *top + sum);
    *top -= first * share;
    for (k = 0; k < count; k++) row[k * STRIDE] -= v[k] * share;
  }
  head[j] = norm;
  for (k = 0; k < count; k++) rows[k * W + j] = 0;
}

/* The error of state k leaves: rows 0..k of T are those that it reaches. Those from M on turn one by one with the error's own
   row, from row k upwards, so that they stay a triangle: a row only ever meets rows below it. The first M are reflected
   together. gain: (N + 2). */
static inline void leave(double *restrict T, int k, double g, double *restrict gain) {
  const int dense = k + 1 < M ? k + 1 : M;
  double v[N], norm[N + 1], keep[N], turn[N];
  double square = 1 + column(T, dense, k, g, v), below = 1, root, middle, own, factor, answer;
  int b, r;
  for (r = k; r >= M; r--) { v[r] = g * T[r * W + k]; norm[r] = sqrt(below += v[r] * v[r]); }
  norm[k + 1] = 1;
  square += below - 1;
  for (r = M; r <= k; r++) {
    const double inverse = 1 / (norm[r] * norm[r + 1]);
    keep[r] = norm[r + 1] * norm[r + 1] * inverse;
    turn[r] = v[r] * inverse;
  }
  root = sqrt(square);
  middle = k < M ? 1 : norm[M];
  factor = 1 / (square + root * middle);
  own = factor * (1 + root / middle);
  answer = g / square;
  for (b = 0; b < STRIDE; b++) { /* a row of the triangle is nothing before its diagonal */
    const int last = b * LANES + LANES - 1;
    const vec sum = gathered(v, T, dense, b);
    vec under = {0}, share, told, *row = (vec *)T + b;
    for (r = k < last ? k : last; r >= M; r--) {
      const vec was = row[r * STRIDE];
      row[r * STRIDE] = keep[r] * was - turn[r] * under;
      under += v[r] * was;
    }
    share = factor * sum + own * under;
    told = answer * (sum + under);
    for (r = 0; r < dense; r++) row[r * STRIDE] -= v[r] * share;
    if (b < STRIDE - 1) *(vec *)(gain + b * LANES) = told;
    else for (r = 0; r <= N - b * LANES; r++) gain[b * LANES + r] = told[r];
  }
  gain[N + 1] = g * answer;
}

/* The first M rows of T, in (state after, p | 1), as rows in (state before, p | 1). E: (NX, N), c: (NX). */
static inline void through_link(const double *restrict T, const double *E, const double *c, double *restrict to) {
  int a, b;
  for (a = 0; a < M; a++, T += W, to += W) {
    copy(T, to, W);
    for (b = 0; b < M; b++) to[b] = 0;
    add(T, E, M, N, N, to);
    to[N] += dot(T, c, NX);
  }
}

/* T: (N + 1, N + 1) of the whole chain in (s_0, p | right-hand side); triangles: (segments, N, N), those of 'from here to
   the end'; G: (segments - 1, NW). */
void dynident_smooth_factor(long long segments, const long long *first, const double *J, const double *weight,
                            const double *E, const double *G, double *gains, double *triangles, const double *rhs,
                            const double *c, double *T) {
  double U[(N + 1) * W], rows[(NX + BLOCK) * W], v[NX + BLOCK];
  long long i, k;
  int a, j;
  memset(U, 0, sizeof U);
  for (i = segments - 1; i >= 0; i--) {
    const long long end = (first[i + 1] + (i == segments - 1)) * NY;
    int begin = 0, count = 0; /* of the rows: the first `begin` are of the future */
    if (i < segments - 1) {
      UNROLL for (j = 0; j < NW; j++) leave(U, missed[j], G[i * NW + j], gains + (i * NW + j) * (N + 2));
      through_link(U, E + i * NX * N, c + i * NX, rows);
      for (a = M; a < NX; a++) U[a * W + N] += dot(U + a * W + a, c + i * NX + a, NX - a); /* as they are, but for c */
      begin = count = M;
    }
    for (k = first[i] * NY; k < end || begin; k++) { /* joins at least once where rows wait */
      if (k < end && weight[k] != 0) {
        double *row = rows + count++ * W;
        for (a = N; a < W; a++) row[a] = 0;
        for (a = 0; a < N; a++) row[a] = weight[k] * J[k * N + a];
        row[N] = rhs[k];
      }
      if (k + 1 < end && count < NX + BLOCK) continue;
      for (j = 0; j < begin; j++) lift(rows + j * W, rows + (j + 1) * W, count - j - 1, j, v);
      copy(rows, U, begin * W);
      for (j = begin; j <= N; j++) lift(U + j * W, rows + begin * W, count - begin, j, v);
      begin = count = 0;
    }
    for (a = 0; a < N; a++) copy(U + a * W, triangles + (i * N + a) * N, N);
  }
  for (a = 0; a <= N; a++) copy(U + a * W, T + a * (N + 1), N + 1);
}

/* The gradient g in (s_0, p) for other right-hand sides and defects, with the derivatives at hand, and what each error then
   answers to no state at all: lacks (segments - 1, NW), such that g_j w_j = -K_j (s, p) - lack. */
void dynident_smooth_back(long long segments, const long long *first, const double *J, const double *weight,
                          const double *E, const double *G, const double *gains, const double *triangles, const double *rhs,
                          const double *c, double *g, double *lacks) {
  double work[NX], pulls[NW + 1];
  long long i, k;
  int a, j, l;
  (void)G;
  memset(g, 0, sizeof(double) * N);
  for (i = segments - 1; i >= 0; i--) {
    const long long stop = (first[i + 1] + (i == segments - 1)) * NY;
    if (i < segments - 1) {
      const double *R = triangles + (i + 1) * N * N, *gain = gains + i * NW * (N + 2);
      for (a = 0; a < NX; a++) work[a] = dot(R + a * N + a, c + i * NX + a, NX - a);
      add(work, R, NX, N, N, g);
      UNROLL for (j = 0; j < NW; j++) {
        double pull = g[missed[j]];
        for (l = 0; l < j; l++) pull -= gain[l * (N + 2) + missed[j]] * pulls[l];
        pulls[j] = pull;
      }
      for (j = 0; j < NW; j++) { /* the defect is among the states that K_j sees */
        lacks[i * NW + j] = gain[j * (N + 2) + N + 1] * pulls[j] - dot(gain + j * (N + 2), c + i * NX, NX);
        pulls[j] = -pulls[j];
      }
      add(pulls, gain, NW, N + 2, N, g);
      for (a = 0; a < M; a++) { work[a] = g[a]; g[a] = 0; }
      add(work, E + i * NX * N, M, N, N, g);
    }
    for (k = first[i] * NY; k < stop; k++) {
      const double f = weight[k] * rhs[k];
      if (weight[k] != 0) add(&f, J + k * N, 1, N, N, g);
    }
  }
}

/* Increments of all segment states, model errors chosen best; ds: (segments, NX), ds[0] given. */
void dynident_smooth_expand(long long segments, const double *E, const double *gains, const double *c, const double *lacks,
                            const double *dp, double *ds) {
  double work[N], errors[NW + 1];
  long long i;
  int a, j, l;
  memcpy(work, ds, sizeof(double) * NX);
  memcpy(work + NX, dp, sizeof(double) * NF);
  for (i = 0; i + 1 < segments; i++) {
    const double *gain = gains + i * NW * (N + 2);
    double *next = ds + (i + 1) * NX;
    for (a = 0; a < M; a++) next[a] = c[i * NX + a] + dot(E + (i * NX + a) * N, work, N);
    for (a = M; a < NX; a++) next[a] = c[i * NX + a] + work[a];
    for (a = 0; a < NX; a++) work[a] = next[a];
    for (j = 0; j < NW; j++) errors[j] = lacks[i * NW + j] + dot(gain + j * (N + 2), work, N);
    UNROLL for (j = NW - 2; j >= 0; j--) /* an error sees what the later ones did to their states */
      for (l = NW - 1; l > j; l--) errors[j] -= gain[j * (N + 2) + missed[l]] * errors[l];
    for (j = 0; j < NW; j++) next[missed[j]] = work[missed[j]] -= errors[j];
  }
}
