/* Trust region: one step of Levenberg-Marquardt on a record, from the linearised problem at a point to that at a better one,
   in one call. What `TrustRegion` of globalization.py does with `iterate` of least_squares.py, for one experiment whose
   segments need not meet; whatever is not ordinary (a simulation that diverges, a null space, an end) is left to them. Stands
   behind chain_qr.c and bounded_least_squares.c. */

#define LARGEST 1e150 /* of a derivative, as in condensing.py */
#define FIRST_GROWTH 2.0
#define PAIRS 64 /* numbers that are summed up one by one */

typedef long long (*March)(long long segments, const long long *first, const double *t, const int *substeps,
                           const double *u_begin, const double *u_end, const double *u_node, const double *p,
                           const double *nodes, const unsigned char *wanted, int lead, const int *active, int sens, double *X,
                           double *Y, double *J, double *X_end, double *S_end);

typedef struct { /* `CompiledRecord` of trust_region.py has the same fields in the same order */
  March march;
  long long segments, nodes, nx, nf, ny, lead; /* lead: first states whose value is unknown, -1 for all */
  const long long *first;
  const double *time;
  const int *substeps;
  const double *u_begin, *u_end, *u_node;
  const unsigned char *wanted;
  const int *active;
  const double *measured, *weight, *state_scale;
  double *p, *starts; /* held values and nodes are there already */
  long long unknowns, problem_unknowns, free_nodes, p_count, x_count;
  const long long *p_place, *p_unknown, *x_place, *x_unknown;
  const double *lower, *upper, *scale, *reach, *value_lower, *value_upper;
  const unsigned char *log;
  long long blocks, k, s, count, bare, bare_count; /* bare: blocks that have no unknowns of their own beside those that have */
  const long long *which, *numbers, *columns, *own, *shared, *bare_which, *bare_numbers, *bare_columns;
  const long long *follows; /* (triangles, n): the unknown of each number */
  double *X, *Y, *J, *X_end, *S_end, *no_links;
  double rounding_cost, residuals, memory, least, most_damping, least_damping, sufficient, step_tolerance, rounding_step,
      cost_rounding, simulation_rounding, singular, multiplier, unobservable;
} Record;

typedef struct { /* `SearchPoint` of trust_region.py: where the search stands */
  double *xi, *column_scale, *top, *border;
  long long *bounds;
  double cost, damping, growth, step, max_defect;
  long long simulations, jacobians, doubtful; /* doubtful: the step gained little, and some direction is hardly seen */
} Point;

static double sum_of_squares(const double *x, long long n) {
  double s = 0;
  long long i;
  if (n > PAIRS) return sum_of_squares(x, n / 2) + sum_of_squares(x + n / 2, n - n / 2);
  for (i = 0; i < n; i++) s += x[i] * x[i];
  return s;
}

/* Parameters, first states and nodes of a point; 1 where a value is not finite. */
static int place(const Record *r, const double *xi, double *values) {
  const long long nx = r->nx;
  long long j;
  for (j = 0; j < r->unknowns; j++) {
    values[j] = xi[j];
    if (j < r->problem_unknowns && r->log[j]) {
      values[j] = exp(xi[j]);
      if (xi[j] <= r->lower[j] && values[j] < r->value_lower[j]) values[j] = r->value_lower[j];
      if (xi[j] >= r->upper[j] && values[j] > r->value_upper[j]) values[j] = r->value_upper[j];
    }
    if (!isfinite(values[j])) return 1;
  }
  for (j = 0; j < r->p_count; j++) r->p[r->p_place[j]] = values[r->p_unknown[j]];
  for (j = 0; j < r->x_count; j++) r->starts[r->x_place[j]] = values[r->x_unknown[j]];
  if (r->free_nodes)
    for (j = 0; j < (r->segments - 1) * nx; j++) r->starts[nx + j] = values[r->problem_unknowns + j];
  return 0;
}

/* The record at a point: weighted residuals, their sum of squares and the largest defect; 1 where anything is not finite. */
static int run(const Record *r, const double *xi, int sens, double *values, double *residual, double *cost, double *max_defect) {
  long long i, j;
  if (place(r, xi, values)) return 1;
  if (r->march(r->segments, r->first, r->time, r->substeps, r->u_begin, r->u_end, r->u_node, r->p, r->starts, r->wanted,
               (int)r->lead, r->active, sens, r->X, r->Y, r->J, r->X_end, r->S_end) != -1) return 1;
  for (i = 0; i < r->nodes * r->ny; i++) residual[i] = r->weight[i] > 0 ? (r->Y[i] - r->measured[i]) * r->weight[i] : 0;
  *cost = sum_of_squares(residual, r->nodes * r->ny);
  *max_defect = 0;
  for (i = 0; i + 1 < r->segments; i++)
    for (j = 0; j < r->nx; j++) {
      const double defect = fabs((r->X_end[i * r->nx + j] - r->starts[(i + 1) * r->nx + j]) / r->state_scale[j]);
      if (defect > *max_defect) *max_defect = defect;
    }
  return !isfinite(*cost);
}

/* The linearised problem in the unknowns alone, of a record that was run with sensitivities: top and border. */
static int condense(const Record *r, const double *values, const double *residual, double *room, double *top, double *border) {
  const int nx = (int)r->nx, nf = (int)r->nf, ny = (int)r->ny, n = nx + nf;
  const long long triangles = r->free_nodes ? r->segments : 1;
  double *T = room, *derivative = T + triangles * (n + 1) * (n + 1);
  long long i;
  if (r->free_nodes ? dynident_sweep_segments(r->segments, r->first, nx, nf, ny, r->J, r->weight, residual, T)
                    : dynident_sweep_factor(r->segments, r->first, nx, nf, ny, r->J, r->weight, residual, r->no_links,
                                            r->no_links, T)) return 1;
  for (i = 0; i < triangles * (n + 1) * (n + 1); i++)
    if (!(fabs(T[i]) < LARGEST)) return 1;
  for (i = 0; i < triangles * n; i++) {
    const long long j = r->follows[i];
    derivative[i] = j < 0 ? 0 : j < r->problem_unknowns && r->log[j] ? values[j] : 1;
  }
  memset(border, 0, sizeof(double) * (r->s + 1) * (r->s + 1));
  if (r->bare && dynident_arrowhead_condense(r->bare, r->bare_which, n, 0, (int)r->s, T, derivative, (int)r->bare_count,
                                             r->bare_numbers, r->bare_columns, 0, 0, 0, border)) return 1;
  return dynident_arrowhead_condense(r->blocks, r->which, n, (int)r->k, (int)r->s, T, derivative, (int)r->count, r->numbers,
                                     r->columns, r->own, 0, top, border);
}

/* The damped step within bounds, and by how much it lowers the sum of squares of the linearised problem. */
static int direction(const Record *r, const Point *at, double damping, int limited, const double *column_scale, double length,
                     double *room, double *step, double *gain) {
  const int n = (int)r->unknowns, k = (int)r->k, s = (int)r->s;
  double *lengths = room, *lower = lengths + n, *upper = lower + n, *damped = upper + n, *border = damped + r->blocks * k * (k + s + 1);
  const double root = sqrt(damping);
  int j;
  for (j = 0; j < n; j++) {
    lengths[j] = root * (column_scale[j] > 0 ? column_scale[j] : 1);
    lower[j] = r->lower[j] - at->xi[j];
    upper[j] = r->upper[j] - at->xi[j];
    if (limited && lower[j] < -r->reach[j]) lower[j] = -r->reach[j];
    if (limited && upper[j] > r->reach[j]) upper[j] = r->reach[j];
  }
  if (dynident_damped_step(r->blocks, k, s, at->top, r->own, at->border, r->shared, n, lengths, lower, upper, r->multiplier,
                           damped, border, step, at->bounds)) return 1;
  *gain = length * length - dynident_arrowhead_left(r->blocks, k, s, at->top, r->own, r->shared, step) -
          dynident_arrowhead_left(1, s, 0, at->border, r->shared, r->shared, step);
  return 0;
}

static double freedom(const Record *r) { return r->residuals - r->unknowns > 1 ? r->residuals - r->unknowns : 1; }

/* Whether every direction of these triangles' unknowns is seen: the smallest singular value is at least 1 / |R^-1|. */
static int all_seen(const Record *r, const double *xi, long long blocks, int k, int s, const double *rows, const long long *own,
                    double least, double *inverse) {
  const int w = k + s + 1;
  long long i;
  int j, l, m;
  for (i = 0; i < blocks; i++, rows += (size_t)k * w, own += k) {
    double squares = 0;
    for (l = 0; l < k; l++) /* column l of the inverse */
      for (j = l; j >= 0; j--) {
        const double size = fabs(xi[own[j]]) > r->scale[own[j]] ? fabs(xi[own[j]]) : r->scale[own[j]];
        double x = j == l;
        for (m = j + 1; m <= l; m++) x -= rows[j * w + m] * inverse[m];
        if (rows[j * w + j] == 0) return 0;
        inverse[j] = x / rows[j * w + j];
        x = inverse[j] / (size > 0 ? size : 1);
        squares += x * x;
      }
    if (!(squares * least * least < 1)) return 0;
  }
  return 1;
}

/* Whether a step that gained so much leaves in doubt if there is more to gain: `end_if_stationary` of globalization.py then asks. */
static int in_doubt(const Record *r, const Point *at, double gained, double *room) {
  const double cost = at->cost > r->rounding_cost ? at->cost : r->rounding_cost;
  const double variance = cost < freedom(r) ? cost / freedom(r) : 1, least = r->unobservable * sqrt(variance);
  return gained < least * least && !(
      all_seen(r, at->xi, r->blocks, (int)r->k, (int)r->s, at->top, r->own, least, room) &&
      all_seen(r, at->xi, 1, (int)r->s, 0, at->border, r->shared, least, room));
}

/* Whether the undamped step is worth going: what remains is more than the tolerance, in standard errors. */
static int remains(const Record *r, double cost, const double *step, double gain) {
  const double rounding = r->simulation_rounding * sqrt(r->rounding_cost / (r->residuals > 1 ? r->residuals : 1));
  double squares = 0, drowned = 2 * sqrt(cost) * rounding;
  long long j;
  for (j = 0; j < r->unknowns; j++) {
    const double part = step[j] / (r->scale[j] > 0 ? r->scale[j] : 1);
    squares += part * part;
  }
  if (sqrt(squares) <= r->rounding_step || cost <= r->rounding_cost) return 0;
  if (drowned < r->cost_rounding * cost) drowned = r->cost_rounding * cost;
  return gain > drowned && sqrt(gain * freedom(r) / cost) > r->step_tolerance;
}

/* Lengths of columns and residual at a point, with a memory of those before; 0 where a null space or an unknown that acts by
   rounding only asks for more than a step. */
static int measured_columns(const Record *r, const Point *at, double *column_scale, double *length) {
  const double seen = r->simulation_rounding * sqrt(r->rounding_cost);
  long long j;
  if (dynident_arrowhead_measures(r->blocks, (int)r->k, (int)r->s, at->top, r->own, at->border, r->shared, (int)r->unknowns,
                                  r->singular, column_scale, length)) return 0;
  for (j = 0; j < r->unknowns; j++) {
    double typical = fabs(at->xi[j]);
    if (typical < 1) typical = 1;
    if (typical < r->scale[j]) typical = r->scale[j];
    if (column_scale[j] * typical <= seen) return 0;
    if (column_scale[j] < r->memory * at->column_scale[j]) column_scale[j] = r->memory * at->column_scale[j];
  }
  return 1;
}

/* One step. Returns 1 where the point has moved; 0 where it has not, with as much damping as was found too little so far; -1
   where memory is out. */
int dynident_trust_region_step(const Record *r, Point *at) {
  const long long n = r->unknowns, w = r->k + r->s + 1, b = r->s + 1, m = r->nx + r->nf, rows = r->nodes * r->ny;
  const long long triangles = r->free_nodes ? r->segments : 1, top = r->blocks * r->k * w;
  const long long for_triangles = triangles * (m + 1) * (m + 1) + triangles * m, for_direction = 3 * n + top + b * b;
  double *room = malloc(sizeof(double) * (4 * n + rows + for_triangles + for_direction + top + b * b));
  double *step = room, *xi = step + n, *values = xi + n, *column_scale = values + n, *residual = column_scale + n;
  double *work = residual + rows, *next_top = work + for_triangles + for_direction, *next_border = next_top + top;
  double length, gain, cost, gained, max_defect;
  int moved = 0;
  long long j;
  if (!room) return -1;
  if (measured_columns(r, at, column_scale, &length) && !direction(r, at, r->least, 0, column_scale, length, work, step, &gain) &&
      remains(r, at->cost, step, gain))
    while (at->damping < r->most_damping && !moved) {
      const int ahead = at->growth == FIRST_GROWTH; /* the last trial helped, so this one probably will */
      double predicted, ratio, shrink;
      if (direction(r, at, at->damping, 1, column_scale, length, work, step, &gain)) break;
      predicted = gain > 0 ? gain : 0;
      for (j = 0; j < n; j++) {
        const double to = at->xi[j] + step[j] < r->lower[j] ? r->lower[j] : at->xi[j] + step[j];
        xi[j] = to > r->upper[j] ? r->upper[j] : to;
      }
      if (run(r, xi, ahead, values, residual, &cost, &max_defect)) break;
      at->jacobians += ahead;
      at->simulations += !ahead;
      if (!(at->cost - cost > r->sufficient * predicted)) {
        at->damping *= at->growth;
        at->growth *= 2;
        continue;
      }
      if (!ahead) {
        if (run(r, xi, 1, values, residual, &cost, &max_defect)) break;
        at->jacobians++;
      }
      if (condense(r, values, residual, work, next_top, next_border)) break;
      ratio = predicted > 0 ? (at->cost - cost) / predicted : 1;
      shrink = 1 - (2 * ratio - 1) * (2 * ratio - 1) * (2 * ratio - 1);
      at->damping *= shrink > 1.0 / 3 ? shrink : 1.0 / 3;
      if (at->damping < r->least_damping) at->damping = r->least_damping;
      at->growth = FIRST_GROWTH;
      gained = at->cost - cost;
      at->cost = cost;
      at->max_defect = max_defect;
      for (at->step = 0, j = 0; j < n; j++) at->step += step[j] * column_scale[j] * step[j] * column_scale[j];
      at->step = sqrt(at->step);
      memcpy(at->xi, xi, sizeof(double) * n);
      memcpy(at->column_scale, column_scale, sizeof(double) * n);
      memcpy(at->top, next_top, sizeof(double) * top);
      memcpy(at->border, next_border, sizeof(double) * b * b);
      at->doubtful = in_doubt(r, at, gained, work);
      moved = 1;
    }
  free(room);
  return moved;
}
