/* Householder: rows joined to a triangle by reflections, a block of rows at a time. Stands behind vectors.c. */

/* A triangle T (w, w), row by row, and rows that wait to be joined to it: B (w, BLOCK), column by column, so that the
   loops below are long and of the same length for every column. */
typedef struct { double *T, *B; int w, rows; } Pile;

/* One reflection: columns j + 1 .. w - 1 of the pile, where column j holds the vector that goes to zero. */
static void reflect(Pile *pile, int j, int count) {
  const int w = pile->w;
  const vec *restrict v = (const vec *)(pile->B + j * BLOCK);
  double *restrict top = pile->T + j * w;
  double s, head = top[j], norm, first, factor;
  vec even = {0}, odd = {0};
  int c, k;
  for (k = 0; k < count; k += 2) { even += v[k] * v[k]; odd += v[k + 1] * v[k + 1]; }
  s = total(even + odd);
  if (s == 0) return;
  norm = head > 0 ? -sqrt(head * head + s) : sqrt(head * head + s);
  first = head - norm;
  factor = 2 / (first * first + s);
  top[j] = norm;
  for (c = j + 1; c + 1 < w; c += 2) { /* two columns at a time hide the wait for the sums */
    vec *restrict x = (vec *)(pile->B + c * BLOCK), *restrict y = x + BLOCK / LANES;
    vec x_even = {0}, x_odd = {0}, y_even = {0}, y_odd = {0};
    double f, g;
    for (k = 0; k < count; k += 2) {
      x_even += v[k] * x[k]; x_odd += v[k + 1] * x[k + 1];
      y_even += v[k] * y[k]; y_odd += v[k + 1] * y[k + 1];
    }
    f = factor * (first * top[c] + total(x_even + x_odd));
    g = factor * (first * top[c + 1] + total(y_even + y_odd));
    top[c] -= f * first;
    top[c + 1] -= g * first;
    for (k = 0; k < count; k++) { x[k] -= f * v[k]; y[k] -= g * v[k]; }
  }
  if (c < w) {
    vec *restrict x = (vec *)(pile->B + c * BLOCK), sum = {0};
    double f;
    for (k = 0; k < count; k++) sum += v[k] * x[k];
    f = factor * (first * top[c] + total(sum));
    top[c] -= f * first;
    for (k = 0; k < count; k++) x[k] -= f * v[k];
  }
}

/* Join the waiting rows to the triangle. */
static void join(Pile *pile) {
  const int count = 2 * ((pile->rows + 2 * LANES - 1) / (2 * LANES)); /* vectors per column, an even number */
  int j, k;
  for (j = 0; j < pile->w; j++)
    for (k = pile->rows; k < count * LANES; k++) pile->B[j * BLOCK + k] = 0;
  for (j = 0; j < pile->w; j++) reflect(pile, j, count);
  pile->rows = 0;
}

static void put(Pile *pile, const double *restrict row) {
  int b;
  for (b = 0; b < pile->w; b++) pile->B[b * BLOCK + pile->rows] = row[b];
  if (++pile->rows == BLOCK) join(pile);
}
