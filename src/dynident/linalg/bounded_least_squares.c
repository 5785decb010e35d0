/* Bounded step: damped least squares within bounds, by a primal active set method; what `bounded_least_squares.py` says, for an
   arrowhead of one stack and its border. Stands behind arrowhead.c. */

typedef struct { /* blocks (k, k + s + 1) and a border (s, s + 1), with the unknowns that their columns belong to */
  long long blocks;
  int k, s;
  const double *rows, *border;
  const long long *own, *shared;
} Arrow;

/* One block with what is fixed moved to the residual: rows (m, k + s + 1) put to a pile of free columns. */
static void put_free(Pile *pile, const double *rows, int m, int k, int s, const long long *own, const long long *shared,
                     const long long *active, const double *step, double *row) {
  int j, l;
  for (j = 0; j < m; j++, rows += k + s + 1) {
    double residual = rows[k + s];
    int at = 0;
    for (l = 0; l < k + s; l++) {
      const long long unknown = l < k ? own[l] : shared[l - k];
      if (active[unknown]) residual += rows[l] * step[unknown];
      else row[at++] = rows[l];
    }
    row[at] = residual;
    put(pile, row);
  }
}

static int free_of(int count, const long long *unknowns, const long long *active, long long *into) {
  int j, found = 0;
  for (j = 0; j < count; j++)
    if (!active[unknowns[j]]) into[found++] = unknowns[j];
  return found;
}

/* The best step of the free unknowns, the others resting where they are: written to target, which has the resting ones. */
static int solve_free(const Arrow *a, const long long *active, const double *step, double *target, double *room,
                      long long *names) {
  const int k = a->k, s = a->s, w = k + s + 1, b = s + 1;
  double *T = room, *B = T + (size_t)w * w, *tops = B + (size_t)BLOCK * w, *border = tops + (size_t)a->blocks * k * w;
  double *border_rows = border + (size_t)b * b, *row = border_rows + (size_t)BLOCK * b;
  long long *shared = names, *own = names + s, i;
  const int sf = free_of(s, a->shared, active, shared);
  Pile at_border = {border, border_rows, sf + 1, 0};
  int j, bad;
  memset(border, 0, sizeof(double) * (sf + 1) * (sf + 1));
  for (i = 0; i < a->blocks; i++) {
    const int kf = free_of(k, a->own + i * k, active, own), wf = kf + sf + 1;
    Pile pile = {T, B, wf, 0};
    memset(T, 0, sizeof(double) * wf * wf);
    put_free(&pile, a->rows + (size_t)i * k * w, k, k, s, a->own + i * k, a->shared, active, step, row);
    if (pile.rows) join(&pile);
    memcpy(tops + (size_t)i * k * w, T, sizeof(double) * kf * wf);
    for (j = kf; sf && j < wf; j++) put(&at_border, T + (size_t)j * wf + kf);
  }
  if (sf) {
    put_free(&at_border, a->border, s, s, 0, a->shared, a->shared, active, step, row);
    if (at_border.rows) join(&at_border);
  }
  bad = dynident_arrowhead_solve(1, sf, 0, border, shared, shared, 0, target);
  for (i = 0; i < a->blocks && !bad; i++) {
    const int kf = free_of(k, a->own + i * k, active, own);
    bad = dynident_arrowhead_solve(1, kf, sf, tops + (size_t)i * k * w, own, shared, 0, target);
  }
  return bad;
}

/* Half the gradient of the sum of squares after a step, of blocks (blocks, k, k + s + 1), added up. */
static void add_gradient(long long blocks, int k, int s, const double *rows, const long long *own, const long long *shared,
                         const double *step, double *gradient) {
  const int w = k + s + 1;
  long long i;
  int j, l;
  for (i = 0; i < blocks; i++, own += k)
    for (j = 0; j < k; j++, rows += w) {
      double x = rows[w - 1];
      for (l = j; l < k; l++) x += rows[l] * step[own[l]];
      for (l = 0; l < s; l++) x += rows[k + l] * step[shared[l]];
      for (l = j; l < k; l++) gradient[own[l]] += rows[l] * x;
      for (l = 0; l < s; l++) gradient[shared[l]] += rows[k + l] * x;
    }
}

/* Towards the target until the first bound is met, which becomes active; 0 where none is in the way. */
static int to_first_bound(int unknowns, const double *lower, const double *upper, const double *target, double *step,
                          long long *active) {
  double least = INFINITY, edge = 0;
  int first = -1, j;
  for (j = 0; j < unknowns; j++)
    if (!active[j] && (target[j] < lower[j] || target[j] > upper[j])) {
      const double move = target[j] - step[j], limit = move < 0 ? lower[j] : upper[j];
      const double part = (limit - step[j]) / (move == 0 ? 1 : move);
      if (first < 0 || part < least) { least = part; first = j; edge = limit; }
    }
  if (first < 0) return 0;
  if (least < 0) least = 0;
  active[first] = target[first] - step[first] < 0 ? -1 : 1;
  for (j = 0; j < unknowns; j++) step[j] += least * (target[j] - step[j]);
  step[first] = edge;
  return 1;
}

/* The active bound that most wants to be left, where its multiplier is more than rounding; -1 for none. */
static int to_be_freed(const Arrow *a, int unknowns, const long long *active, const double *step, double tolerance,
                       double *gradient, double *squares) {
  double largest = -INFINITY, residual;
  int worst = -1, j;
  memset(gradient, 0, sizeof(double) * unknowns);
  memset(squares, 0, sizeof(double) * unknowns);
  add_gradient(a->blocks, a->k, a->s, a->rows, a->own, a->shared, step, gradient);
  add_gradient(1, a->s, 0, a->border, a->shared, a->shared, step, gradient);
  residual = dynident_arrowhead_squares(a->blocks, a->k, a->s, a->rows, a->own, a->shared, squares) +
             dynident_arrowhead_squares(1, a->s, 0, a->border, a->shared, a->shared, squares);
  for (j = 0; j < unknowns; j++)
    if (active[j] && active[j] * gradient[j] > largest) { largest = active[j] * gradient[j]; worst = j; }
  return worst >= 0 && largest > tolerance * sqrt(squares[worst]) * sqrt(residual) ? worst : -1;
}

static int active_set(const Arrow *a, int unknowns, const double *lower, const double *upper, double tolerance, double *step,
                      long long *active) {
  const int w = a->k + a->s + 1, b = a->s + 1;
  const size_t size = (size_t)w * w + (size_t)BLOCK * (w + b) + (size_t)a->blocks * a->k * w + (size_t)b * b + w + 3 * unknowns;
  double *target = malloc(sizeof(double) * size), *gradient = target + unknowns, *squares = gradient + unknowns;
  long long *names = malloc(sizeof(long long) * (w + 1)), turn;
  int bad = !target || !names, j, freed;
  for (j = 0; j < unknowns && !bad; j++) step[j] = step[j] < lower[j] ? lower[j] : step[j] > upper[j] ? upper[j] : step[j];
  for (turn = 0; turn < 10LL * unknowns + 10 && !bad; turn++) {
    for (j = 0; j < unknowns; j++) target[j] = active[j] ? step[j] : 0;
    if (solve_free(a, active, step, target, squares + unknowns, names)) { bad = 2; break; }
    if (to_first_bound(unknowns, lower, upper, target, step, active)) continue;
    memcpy(step, target, sizeof(double) * unknowns);
    freed = to_be_freed(a, unknowns, active, step, tolerance, gradient, squares);
    if (freed < 0) break;
    active[freed] = 0;
  }
  free(target); free(names);
  return bad;
}

/* Rows length * unknown added to the arrowhead (damped, damped_border: (s + 1, s + 1)), and its least squares step within
   bounds: -1 in `active` at a lower one, +1 at an upper one, 0 where free. Returns 0, 1 where memory is out, 2 where a
   diagonal is zero. */
int dynident_damped_step(long long blocks, int k, int s, const double *rows, const long long *own, const double *border,
                         const long long *shared, int unknowns, const double *lengths, const double *lower,
                         const double *upper, double tolerance, double *damped, double *damped_border, double *step,
                         long long *active) {
  const Arrow arrow = {blocks, k, s, damped, damped_border, own, shared};
  int j, any = 0;
  memset(damped_border, 0, sizeof(double) * (s + 1) * (s + 1));
  memset(step, 0, sizeof(double) * unknowns);
  if (dynident_arrowhead_reduce(blocks, k, k, s, rows, own, lengths, damped, damped_border)) return 1;
  if (s) {
    double *top = malloc(sizeof(double) * s * (s + 1)), left;
    int bad = !top || dynident_arrowhead_reduce(1, s, s, 0, border, shared, lengths, top, &left) ||
              dynident_arrowhead_reduce(1, s, 0, s, top, 0, 0, 0, damped_border);
    free(top);
    if (bad) return 1;
  }
  if (dynident_arrowhead_solve(1, s, 0, damped_border, shared, shared, 0, step) ||
      dynident_arrowhead_solve(blocks, k, s, damped, own, shared, 0, step)) return 2;
  for (j = 0; j < unknowns; j++) {
    active[j] = step[j] < lower[j] ? -1 : step[j] > upper[j] ? 1 : 0;
    any |= active[j] != 0;
  }
  return any ? active_set(&arrow, unknowns, lower, upper, tolerance, step, active) : 0;
}
