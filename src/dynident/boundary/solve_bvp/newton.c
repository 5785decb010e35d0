/* Newton: the whole of a damped Newton's method on one mesh of collocation, from its start to its end.

   Stands behind block_elimination.c and uses its functions. The same steps in the same order as its twin newton.py, on the
   equations of CollocationSystem: unknowns are the states at all nodes, the parameters, the stages of every segment. What is not
   usual (equations that are not finite or singular at a Jacobian) is left to the twin, which says why in words. */

typedef long long (*collocate)(long long nodes, const double *t, const double *u_begin, const double *u_end,
                               const double *u_node, const double *p, const double *X, const double *Z,
                               const unsigned char *wanted, int sens, double *Y, double *J, double *defect, double *link,
                               double *correction, double *stage);
typedef void (*singular_values)(char *, int *, int *, double *, int *, double *, double *, int *, double *, int *, double *,
                                int *, int *, int *); /* dgesdd */
typedef void (*factor)(int *, int *, double *, int *, int *, int *);                                  /* dgetrf */

typedef struct {
  long long segments;
  int states, parameters, stages, free, regular, by_residual, iterations;
  double tolerance, shortest, insist, block_pivot, held, equation_rounding, exact, hidden, rounding_step, reduction;
  collocate run;
  void (*ends)(void); /* from ends_at (begin, end, p) to conditions and slopes, column by column */
  singular_values svd;
  factor lu;
  factored solve;
  const double *time, *u_begin, *u_end, *u_node;
  const unsigned char *wanted;
  double *outputs, *slopes; /* of the model, not used */
  const double *sizes;      /* (states + parameters) typical */
  const double *scale;      /* (unknowns) likewise */
  const long long *used;    /* (free) place of each of the model's parameters among all */
  double *ends_at;
  const double *conditions, *conditions_by;
  double *z; /* (unknowns) in: start, out: end */
  /* the last linearisation; link and stage hold one column per parameter, whether used or not */
  double *value, *rounding, *link, *stage, *kept, *row_size, *small, *growth;
  int *pivots;
  double *pages; /* (iterations, 3): share, step, residual */
  /* out */
  long long turns, jacobians, evaluations;
} Newton;

enum { FOUND = 0, FOUND_IN_ROUNDING = 1, EXHAUSTED = 2, STUCK = 3, NOT_USUAL = 4, NO_MEMORY = 5 };

typedef struct { /* room for one search */
  double *defect, *correction, *narrow_link, *narrow_stage, *scaled, *last, *p, *rhs, *step, *following, *last_step,
      *last_following, *asked, *trial, *work, *nodes;
  int *whole;
} Room;

static long long unknowns(const Newton *b) {
  return (b->segments + 1) * b->states + b->parameters + b->segments * b->stages;
}

static double largest_of(long long n, const double *v, const double *scale) {
  double most = 0;
  long long k;
  for (k = 0; k < n; k++) {
    const double each = fabs(scale ? v[k] / scale[k] : v[k]);
    if (isnan(each)) return each;
    if (each > most) most = each;
  }
  return most;
}

/* Root mean square, in typical sizes, of a - share * b. */
static double distance(long long n, const double *a, const double *b, double share, const double *scale) {
  double sum = 0;
  long long k;
  for (k = 0; k < n; k++) {
    const double each = (a[k] - (b ? share * b[k] : 0)) / scale[k];
    sum += each * each;
  }
  return sqrt(sum / n);
}

static int finite_numbers(long long n, const double *v) {
  long long k;
  for (k = 0; k < n; k++) if (!isfinite(v[k])) return 0;
  return 1;
}

/* F at a point; with its terms by nodes, p and stages where they are asked for. 0 where a number is not finite. */
static int equations(const Newton *b, Room *r, const double *z, int sens, double *value) {
  const int n = b->states, m = b->parameters;
  const long long N = b->segments, count = (N + 1) * n;
  const int plain = m == 0;
  long long k;
  double *link = plain ? b->link : r->narrow_link, *stage = plain ? b->stage : r->narrow_stage;
  for (k = 0; k < b->free; k++) r->p[k] = z[count + b->used[k]];
  if (b->run(N + 1, b->time, b->u_begin, b->u_end, b->u_node, r->p, z, z + count + m, b->wanted, sens, b->outputs, b->slopes,
             r->defect, sens ? link : 0, r->correction, sens ? stage : 0) != -1) return 0;
  memcpy(b->ends_at, z, sizeof(double) * n);
  memcpy(b->ends_at + n, z + N * n, sizeof(double) * n);
  memcpy(b->ends_at + 2 * n, z + count, sizeof(double) * m);
  b->ends();
  if (!finite_numbers(n + m, b->conditions)) return 0;
  memcpy(value, r->defect, sizeof(double) * N * n);
  memcpy(value + N * n, b->conditions, sizeof(double) * (n + m));
  for (k = 0; k < N * b->stages; k++) value[count + m + k] = -r->correction[k];
  return 1;
}

/* (rows, states + free) to (rows, states + parameters), with zeros for parameters that no step depends on. */
static void widen(const Newton *b, long long rows, const double *narrow, double *wide) {
  const int n = b->states, from = n + b->free, to = n + b->parameters;
  long long k;
  int c;
  memset(wide, 0, sizeof(double) * rows * to);
  for (k = 0; k < rows; k++) {
    memcpy(wide + k * to, narrow + k * from, sizeof(double) * n);
    for (c = 0; c < b->free; c++) wide[k * to + n + b->used[c]] = narrow[k * from + n + c];
  }
}

/* F, its Jacobian and the factors of that at z; 0 where it is not usual. */
static int linearize(Newton *b, Room *r, const double *z) {
  const int n = b->states, m = b->parameters, w = n + m, K = 2 * n + m;
  const long long N = b->segments, count = (N + 1) * n;
  int a, c, info = 0, rows = K, room = 16 * K * K + 64 * K;
  double dummy = 0;
  char none = 'N';
  int one = 1;
  b->jacobians++;
  b->evaluations++;
  if (!equations(b, r, z, 1, b->value)) return 0;
  if (!finite_numbers((long long)w * (2 * n + m), b->conditions_by)) return 0;
  if (m) {
    widen(b, N * n, r->narrow_link, b->link);
    widen(b, N * b->stages, r->narrow_stage, b->stage);
  }
  dynident_measure(N, n, m, b->stages, b->link, b->stage, z, b->sizes, b->equation_rounding, r->scaled, b->growth, b->rounding,
                   r->nodes);
  if (dynident_eliminate(N, n, m, r->scaled, b->kept, r->last) != 0) return 0;
  for (a = 0; a < n; a++) for (c = 0; c < K; c++) b->small[c * K + a] = r->last[a * K + c];
  for (a = 0; a < w; a++) {
    double held = 0;
    for (c = 0; c < K; c++) {
      const double slope = b->conditions_by[c * w + a];
      const double at = c < n ? z[c] : c < 2 * n ? z[N * n + c - n] : z[count + c - 2 * n];
      const double size = b->sizes[c < n ? c : c - n];
      b->small[c * K + n + a] = slope * size;
      held += fabs(slope) * at_least(at, size);
    }
    b->rounding[N * n + a] = b->equation_rounding * held;
  }
  for (a = 0; a < K; a++) {
    double most = 0;
    for (c = 0; c < K; c++) {
      const double each = fabs(b->small[c * K + a]);
      if (!isfinite(each)) return 0;
      if (each > most) most = each;
    }
    if (most == 0) return 0;
    b->row_size[a] = most;
    for (c = 0; c < K; c++) b->small[c * K + a] /= most;
  }
  memcpy(r->work, b->small, sizeof(double) * K * K);
  b->svd(&none, &rows, &rows, r->work, &rows, r->work + K * K, &dummy, &one, &dummy, &one, r->work + K * K + K, &room,
         r->whole, &info);
  if (info != 0) return 0;
  if (!(r->work[K * K + K - 1] > (b->regular ? b->block_pivot : b->held) * r->work[K * K])) return 0;
  b->lu(&rows, &rows, b->small, &rows, b->pivots, &info);
  return info == 0;
}

/* minus J^-1 rhs, by the last factors. */
static void newton_step(const Newton *b, Room *r, const double *rhs, double *step) {
  const int n = b->states, m = b->parameters, w = n + m;
  const long long N = b->segments, count = (N + 1) * n;
  double *p = step + count;
  long long i;
  int a, c;
  for (i = 0; i < N; i++) for (a = 0; a < n; a++) r->rhs[i * n + a] = rhs[i * n + a] / b->sizes[a];
  dynident_eliminate_solve(N, n, m, b->kept, b->small, b->pivots, b->row_size, b->solve, 1, r->rhs, rhs + N * n, step, p, r->work);
  for (i = 0; i <= N; i++) for (a = 0; a < n; a++) step[i * n + a] *= -b->sizes[a];
  for (c = 0; c < m; c++) p[c] *= -b->sizes[n + c];
  for (i = 0; i < N; i++)
    for (a = 0; a < b->stages; a++) {
      const long long k = i * b->stages + a;
      const double *row = b->stage + k * w;
      double sum = -rhs[count + m + k];
      for (c = 0; c < n; c++) sum += row[c] * step[i * n + c];
      for (c = 0; c < m; c++) sum += row[n + c] * p[c];
      step[count + m + k] = sum;
    }
}

static int is_exact(const Newton *b, const double *value) {
  const long long n = unknowns(b);
  long long k;
  for (k = 0; k < n; k++) if (!(fabs(value[k]) <= b->exact * b->rounding[k])) return 0;
  return 1;
}

static int is_hidden(const Newton *b, const double *step) {
  const long long n = unknowns(b);
  long long k;
  for (k = 0; k < n; k++) if (!(fabs(step[k]) <= b->hidden * (fabs(b->z[k]) + b->scale[k]))) return 0;
  return 1;
}

static double least(double a, double b) { return b < a ? b : a; }
static double most(double a, double b) { return b > a ? b : a; }

/* Whether the step helps, and which share looks right. */
static int helps(const Newton *b, const Room *r, double before, double share, double size, double *suggested) {
  const long long n = unknowns(b);
  const double off = distance(n, r->following, r->step, 1 - share, b->scale);
  const double right = off > 0 ? 0.5 * size * share * share / off : 1.0;
  if (b->by_residual) {
    double after = 0;
    long long k;
    for (k = 0; k < n; k++) after += r->trial[k] * r->trial[k];
    *suggested = most(0.1 * share, least(right, 1.0));
    return after <= (1 - 2 * b->reduction * share) * before || is_hidden(b, r->step);
  }
  *suggested = least(1.0, right);
  return distance(n, r->following, 0, 0, b->scale) <= (1 - share / 4) * size || is_hidden(b, r->step);
}

/* Shorten a step until it helps; the share, or 0 where nothing helps. */
static double search(Newton *b, Room *r, const double *value, double size, double share) {
  const long long n = unknowns(b);
  int enlarged = 0;
  double before = 0, suggested;
  long long k;
  for (k = 0; k < n; k++) before += value[k] * value[k];
  while (share >= b->shortest) {
    int good;
    for (k = 0; k < n; k++) r->asked[k] = b->z[k] + share * r->step[k];
    b->evaluations++;
    if (!equations(b, r, r->asked, 0, r->trial)) { share /= 4; continue; }
    newton_step(b, r, r->trial, r->following);
    good = helps(b, r, before, share, size, &suggested) || (share == 1.0 && is_exact(b, r->trial));
    if (good && !enlarged && suggested >= 4 * share && share < 1) { share = least(1.0, suggested); enlarged = 1; continue; }
    if (good || share <= b->insist) return share;
    share = most(least(suggested, share / 2), least(b->insist, share / 2));
    enlarged = 1;
  }
  return 0;
}

static double predicted(const Newton *b, const Room *r, double last_share, double last_size, double size) {
  const long long n = unknowns(b);
  double off, wanted;
  if (b->by_residual) return least(1.0, 4 * last_share);
  off = distance(n, r->last_following, r->step, 1.0, b->scale);
  if (off <= 0 || size <= 0) return 1.0;
  wanted = last_share * last_size * distance(n, r->last_following, 0, 0, b->scale) / (off * size);
  return wanted < b->shortest ? b->shortest : wanted > 1.0 ? 1.0 : wanted;
}

static int iterate(Newton *b, Room *r) {
  const long long n = unknowns(b);
  double last_share = 0, last_size = 0, *value = b->value, *swap;
  long long k;
  for (b->turns = 0;;) {
    double size, share, *page;
    if (b->turns >= b->iterations) return EXHAUSTED;
    newton_step(b, r, value, r->step);
    size = distance(n, r->step, 0, 0, b->scale);
    share = search(b, r, value, size, last_share > 0 ? predicted(b, r, last_share, last_size, size) : 1.0);
    if (!(share > 0)) {
      if (largest_of(n, r->step, b->scale) <= b->tolerance || is_exact(b, value)) return FOUND;
      return largest_of(n, r->step, b->scale) <= b->rounding_step && last_share == 1 ? FOUND_IN_ROUNDING : STUCK;
    }
    for (k = 0; k < n; k++) r->asked[k] = share * r->step[k];
    page = b->pages + 3 * b->turns++;
    page[0] = share;
    page[1] = largest_of(n, r->asked, b->scale);
    page[2] = largest_of(n, r->trial, 0);
    for (k = 0; k < n; k++) b->z[k] += r->asked[k];
    if (share == 1.0 && (largest_of(n, r->following, b->scale) <= b->tolerance || is_exact(b, r->trial))) {
      for (k = 0; k < n; k++) b->z[k] += r->following[k];
      return FOUND;
    }
    last_share = share;
    last_size = distance(n, r->step, 0, 0, b->scale);
    swap = r->last_step; r->last_step = r->step; r->step = swap;
    swap = r->last_following; r->last_following = r->following; r->following = swap;
    if (!linearize(b, r, b->z)) return NOT_USUAL;
  }
}

/* Returns how it ended. */
int dynident_newton(Newton *b) {
  const int n = b->states, m = b->parameters, w = n + m, K = 2 * n + m;
  const size_t N = b->segments, all = unknowns(b), narrow = n + b->free;
  const size_t sizes[] = {N * n, N * b->stages, (N + 1) * n * narrow, N * b->stages * narrow, N * n * w, (size_t)n * K,
                          b->free, N * n, all, all, all, all, all, all, (size_t)17 * K * K + 65 * K, w};
  size_t total = 0, k;
  Room r;
  double **parts[] = {&r.defect, &r.correction, &r.narrow_link, &r.narrow_stage, &r.scaled, &r.last, &r.p, &r.rhs, &r.step,
                      &r.following, &r.last_step, &r.last_following, &r.asked, &r.trial, &r.work, &r.nodes};
  double *memory;
  int end;
  for (k = 0; k < sizeof sizes / sizeof *sizes; k++) total += sizes[k];
  memory = malloc(sizeof(double) * total + sizeof(int) * 8 * K);
  if (!memory) return NO_MEMORY;
  r.whole = (int *)(memory + total);
  for (k = 0, total = 0; k < sizeof sizes / sizeof *sizes; total += sizes[k++]) *parts[k] = memory + total;
  b->jacobians = b->evaluations = b->turns = 0;
  end = linearize(b, &r, b->z) ? iterate(b, &r) : NOT_USUAL;
  free(memory);
  return end;
}
