/* Arrowhead: blocks of least squares rows with unknowns of their own and unknowns that all share; what `arrowhead.py` says,
   for a whole stack of blocks of one shape. Stands behind vectors.c and householder.c.

   A block: rows (k, w) with w = k + s + 1, triangular in its own k unknowns; then the s shared ones, then the residual. The
   border is such a block too, of the shared unknowns alone. All matrices stand row by row. */

/* Rows (m, w) of each block reflected until k of them hold all of its own unknowns (`top`); the rest is joined to the border
   (s + 1, s + 1). Where lengths are given, a row length * unknown is added for each own unknown, and the m = k rows are
   triangular already. Returns 0, or 1 where memory is out. */
int dynident_arrowhead_reduce(long long blocks, int m, int k, int s, const double *rows, const long long *own,
                              const double *lengths, double *top, double *border) {
  const int w = k + s + 1, b = s + 1;
  double *room = calloc((size_t)w * w + (size_t)BLOCK * (w + b) + w, sizeof(double));
  double *T = room, *row = T + (size_t)w * w + (size_t)BLOCK * (w + b);
  Pile pile = {T, T + (size_t)w * w, w, 0}, shared = {border, T + (size_t)w * w + (size_t)BLOCK * w, b, 0};
  long long i;
  int j;
  if (!room) return 1;
  for (i = 0; i < blocks; i++, rows += (size_t)m * w, top += (size_t)k * w) {
    memset(T, 0, sizeof(double) * w * w);
    if (lengths) {
      memcpy(T, rows, sizeof(double) * k * w);
      for (j = 0; j < k; j++) {
        memset(row, 0, sizeof(double) * w);
        row[j] = lengths[own[i * k + j]];
        put(&pile, row);
      }
    } else {
      for (j = 0; j < m; j++) put(&pile, rows + (size_t)j * w);
    }
    if (pile.rows) join(&pile);
    memcpy(top, T, sizeof(double) * k * w);
    for (j = k; s && j < w; j++) put(&shared, T + (size_t)j * w + k);
  }
  if (shared.rows) join(&shared);
  free(room);
  return 0;
}

/* The same for triangles (n + 1, n + 1) in (numbers | residual), of which block i of the stack is number which[i]: each of
   `count` numbers goes to its column (blocks, count), times its derivative (n of each triangle). Where priors are given, a
   weight and a residual for each unknown, so much of them is added as speaks of own unknowns. */
int dynident_arrowhead_condense(long long blocks, const long long *which, int n, int k, int s, const double *triangles,
                                const double *derivative, int count, const long long *numbers, const long long *columns,
                                const long long *own, const double *prior, double *top, double *border) {
  const int w = k + s + 1, m = n + 1 + (prior ? k : 0);
  double *rows = calloc((size_t)blocks * m * w, sizeof(double));
  long long i;
  int j, l, bad;
  if (!rows) return 1;
  for (i = 0; i < blocks; i++) {
    const double *T = triangles + (size_t)which[i] * (n + 1) * (n + 1), *by = derivative + (size_t)which[i] * n;
    double *row = rows + (size_t)i * m * w;
    for (j = 0; j <= n; j++, row += w, T += n + 1) {
      for (l = 0; l < count; l++) row[columns[i * count + l]] = T[numbers[l]] * by[numbers[l]];
      row[w - 1] = T[n];
    }
    for (j = 0; prior && j < k; j++, row += w) {
      row[j] = prior[2 * own[i * k + j]];
      row[w - 1] = prior[2 * own[i * k + j] + 1];
    }
  }
  bad = dynident_arrowhead_reduce(blocks, m, k, s, rows, own, 0, top, border);
  free(rows);
  return bad;
}

/* Triangles solved for (blocks, k) right-hand sides, less what the shared unknowns of the step contribute; written to the own
   ones. Without right-hand sides: minus the residuals. Returns 1 where a diagonal is zero. */
int dynident_arrowhead_solve(long long blocks, int k, int s, const double *rows, const long long *own,
                             const long long *shared, const double *right, double *step) {
  const int w = k + s + 1;
  long long i;
  int j, l;
  for (i = 0; i < blocks; i++, rows += (size_t)k * w, own += k)
    for (j = k - 1; j >= 0; j--) {
      const double *row = rows + (size_t)j * w;
      double x = right ? right[i * k + j] : -row[w - 1];
      if (row[j] == 0) return 1;
      for (l = 0; l < s; l++) x -= row[k + l] * step[shared[l]];
      for (l = j + 1; l < k; l++) x -= row[l] * step[own[l]];
      step[own[j]] = x / row[j];
    }
  return 0;
}

/* The transposed triangles solved in place, (blocks, k); what the border takes of the solutions is subtracted from `passed`
   (s). Returns 1 where a diagonal is zero. */
int dynident_arrowhead_solve_transposed(long long blocks, int k, int s, const double *rows, double *right, double *passed) {
  const int w = k + s + 1;
  long long i;
  int j, l;
  for (i = 0; i < blocks; i++, rows += (size_t)k * w, right += k)
    for (j = 0; j < k; j++) {
      const double *row = rows + (size_t)j * w;
      if (row[j] == 0) return 1;
      right[j] /= row[j];
      for (l = j + 1; l < k; l++) right[l] -= row[l] * right[j];
      for (l = 0; l < s; l++) passed[l] -= row[k + l] * right[j];
    }
  return 0;
}

/* Squared columns of own and shared unknowns, added to `squares`; returns the sum of the squared residuals. */
double dynident_arrowhead_squares(long long blocks, int k, int s, const double *rows, const long long *own,
                                  const long long *shared, double *squares) {
  const int w = k + s + 1;
  double all = 0;
  long long i;
  int j, l;
  for (i = 0; i < blocks; i++, own += k) {
    double part = 0;
    for (j = 0; j < k; j++, rows += w) {
      for (l = j; l < k; l++) squares[own[l]] += rows[l] * rows[l];
      for (l = 0; l < s; l++) squares[shared[l]] += rows[k + l] * rows[k + l];
      part += rows[w - 1] * rows[w - 1];
    }
    all += part;
  }
  return all;
}

/* What a step leaves of the sum of squares. */
double dynident_arrowhead_left(long long blocks, int k, int s, const double *rows, const long long *own,
                               const long long *shared, const double *step) {
  const int w = k + s + 1;
  double all = 0;
  long long i;
  int j, l;
  for (i = 0; i < blocks; i++, own += k) {
    double part = 0;
    for (j = 0; j < k; j++, rows += w) {
      double x = rows[w - 1];
      for (l = j; l < k; l++) x += rows[l] * step[own[l]];
      for (l = 0; l < s; l++) x += rows[k + l] * step[shared[l]];
      part += x * x;
    }
    all += part;
  }
  return all;
}

/* Whether a diagonal is smaller than this part of its column's length. */
int dynident_arrowhead_small_diagonal(long long blocks, int k, int s, const double *rows, const long long *own,
                                      const double *lengths, double part) {
  const int w = k + s + 1;
  long long i;
  int j;
  for (i = 0; i < blocks; i++, own += k)
    for (j = 0; j < k; j++, rows += w)
      if (fabs(rows[j]) < part * fabs(lengths[own[j]])) return 1;
  return 0;
}

/* Lengths of all columns and of the residual of a stack with its border. Returns whether a diagonal is smaller than `part` of
   its column; one without a column counts as if that had length 1. */
int dynident_arrowhead_measures(long long blocks, int k, int s, const double *rows, const long long *own, const double *border,
                                const long long *shared, int unknowns, double part, double *lengths, double *residual) {
  double squares;
  int j, small;
  memset(lengths, 0, sizeof(double) * unknowns);
  squares = dynident_arrowhead_squares(blocks, k, s, rows, own, shared, lengths) +
            dynident_arrowhead_squares(1, s, 0, border, shared, shared, lengths);
  *residual = sqrt(squares);
  for (j = 0; j < unknowns; j++) lengths[j] = lengths[j] == 0 ? -1 : sqrt(lengths[j]);
  small = dynident_arrowhead_small_diagonal(blocks, k, s, rows, own, lengths, part) ||
          dynident_arrowhead_small_diagonal(1, s, 0, border, shared, lengths, part);
  for (j = 0; j < unknowns; j++) if (lengths[j] < 0) lengths[j] = 0;
  return small;
}
