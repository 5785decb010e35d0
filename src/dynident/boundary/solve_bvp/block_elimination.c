/* Elimination: the states at inner nodes leave a chain of segments, by reflections along time.

   Rows of segment i, i = 0 .. segments - 1:   E_i s_i + P_i p - s_{i+1} = c_i      (E P: link, n rows, n + m columns)
   From node 1 to the last inner one, the rows that tie s_i to s_0 (carried) stand on those of segment i; a Householder
   reflection of the 2 n rows per column of s_i leaves n rows that give s_i by the others, which are kept, and n rows that tie
   s_{i+1} to s_0. What remains is C s_0 + D s_N + Q p = r. All of it is a QR factorisation: growing and decaying modes do
   no harm. All matrices stand row by row. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* kept: per inner node (2 n, w) with w = 3 n + m: R and reflections in the first n columns, then what s_i owes to s_0, s_{i+1}
   and p; heads (n) and factors (n) of the reflections behind it. last: (n, 2 n + m). Returns 0, or the node whose triangle is
   singular, or -1 without memory. */
long long dynident_eliminate(long long segments, int n, int m, const double *link, double *kept, double *last) {
  const int w = 3 * n + m, from = n + m;
  const size_t block = (size_t)2 * n * w + 2 * n;
  double *carry = malloc(sizeof(double) * ((size_t)n * (2 * n + m) + w));
  double *sums = carry + (size_t)n * (2 * n + m);
  const int wide = 2 * n + m;
  long long i;
  int a, c, r;
  if (!carry) return -1;
  memset(carry, 0, sizeof(double) * n * wide);
  for (a = 0; a < n; a++) { /* E_0 s_0 - s_1 + P_0 p */
    memcpy(carry + a * wide, link + a * from, sizeof(double) * n);
    carry[a * wide + n + a] = -1;
    memcpy(carry + a * wide + 2 * n, link + a * from + n, sizeof(double) * m);
  }
  for (i = 1; i < segments; i++) {
    double *W = kept + (i - 1) * block, *head = W + 2 * n * w, *factor = head + n;
    const double *E = link + i * n * from;
    double largest = 0;
    memset(W, 0, sizeof(double) * 2 * n * w);
    for (a = 0; a < n; a++) {
      double *top = W + a * w, *low = W + (n + a) * w;
      memcpy(top, carry + a * wide + n, sizeof(double) * n);          /* D on s_i */
      memcpy(top + n, carry + a * wide, sizeof(double) * n);          /* C on s_0 */
      memcpy(top + 3 * n, carry + a * wide + 2 * n, sizeof(double) * m);
      memcpy(low, E + a * from, sizeof(double) * n);
      low[2 * n + a] = -1;
      memcpy(low + 3 * n, E + a * from + n, sizeof(double) * m);
    }
    for (c = 0; c < n; c++) {
      double s = 0, norm, first;
      for (r = c; r < 2 * n; r++) s += W[r * w + c] * W[r * w + c];
      norm = W[c * w + c] > 0 ? -sqrt(s) : sqrt(s);
      if (!isfinite(s)) { free(carry); return i; }
      if (fabs(norm) > largest) largest = fabs(norm);
      if (!(fabs(norm) > 1e-300)) { free(carry); return i; }
      first = W[c * w + c] - norm;
      head[c] = first;
      factor[c] = 1 / (-first * norm); /* 2 / |v|^2 */
      for (a = c + 1; a < w; a++) sums[a] = first * W[c * w + a];
      for (r = c + 1; r < 2 * n; r++) {
        const double v = W[r * w + c];
        const double *restrict row = W + r * w;
        if (v == 0) continue;
        for (a = c + 1; a < w; a++) sums[a] += v * row[a];
      }
      for (a = c + 1; a < w; a++) { sums[a] *= factor[c]; W[c * w + a] -= first * sums[a]; }
      for (r = c + 1; r < 2 * n; r++) {
        const double v = W[r * w + c];
        double *restrict row = W + r * w;
        if (v == 0) continue;
        for (a = c + 1; a < w; a++) row[a] -= v * sums[a];
      }
      W[c * w + c] = norm;
    }
    for (c = 0; c < n; c++) if (!(fabs(W[c * w + c]) > 1e-15 * largest)) { free(carry); return i; }
    for (a = 0; a < n; a++) {
      const double *low = W + (n + a) * w;
      memcpy(carry + a * wide, low + n, sizeof(double) * n);
      memcpy(carry + a * wide + n, low + 2 * n, sizeof(double) * n);
      memcpy(carry + a * wide + 2 * n, low + 3 * n, sizeof(double) * m);
    }
  }
  memcpy(last, carry, sizeof(double) * n * wide);
  free(carry);
  return 0;
}

/* Right-hand sides through the reflections: rhs (segments, n) becomes, at i - 1, what stays with node i, and at the end what
   stays with the last rows. */
void dynident_eliminate_forward(long long segments, int n, int m, const double *kept, double *rhs) {
  const int w = 3 * n + m;
  const size_t block = (size_t)2 * n * w + 2 * n;
  long long i;
  int c, r;
  for (i = 1; i < segments; i++) {
    const double *W = kept + (i - 1) * block, *head = W + 2 * n * w, *factor = head + n;
    double *v = rhs + (i - 1) * n; /* carried, then the segment's own: neighbours in memory */
    for (c = 0; c < n; c++) {
      double s = head[c] * v[c];
      for (r = c + 1; r < 2 * n; r++) s += W[r * w + c] * v[r];
      s *= factor[c];
      v[c] -= head[c] * s;
      for (r = c + 1; r < 2 * n; r++) v[r] -= W[r * w + c] * s;
    }
  }
}

typedef void (*factored)(char *, int *, int *, double *, int *, int *, double *, int *, int *); /* LAPACK's dgetrs */

void dynident_eliminate_back(long long, int, int, const double *, const double *, const double *, double *);

/* All of it for several right-hand sides: rhs (count, segments n), which is overwritten, and conditions (count, n + m) become
   s (count, segments + 1, n) and p (count, m). small, pivots: the factored equations of both ends and p, each row divided by
   row_size; room: 2 n + m. */
void dynident_eliminate_solve(long long segments, int n, int m, const double *kept, double *small, int *pivots,
                              const double *row_size, factored solve, int count, double *rhs, const double *conditions,
                              double *s, double *p, double *room) {
  int rows = 2 * n + m, one = 1, info, a, k;
  char plain = 'N';
  for (k = 0; k < count; k++, rhs += segments * n, conditions += n + m, s += (segments + 1) * n, p += m) {
    dynident_eliminate_forward(segments, n, m, kept, rhs);
    for (a = 0; a < n; a++) room[a] = rhs[(segments - 1) * n + a] / row_size[a];
    for (a = n; a < rows; a++) room[a] = conditions[a - n] / row_size[a];
    solve(&plain, &rows, &one, small, &rows, pivots, room, &rows, &info);
    memcpy(s, room, sizeof(double) * n);
    memcpy(s + segments * n, room + n, sizeof(double) * n);
    memcpy(p, room + 2 * n, sizeof(double) * m);
    dynident_eliminate_back(segments, n, m, kept, rhs, p, s);
  }
}

/* States at the inner nodes, given s (segments + 1, n) at both ends and p; rhs as it came from above. */
void dynident_eliminate_back(long long segments, int n, int m, const double *kept, const double *rhs, const double *p,
                             double *s) {
  const int w = 3 * n + m;
  const size_t block = (size_t)2 * n * w + 2 * n;
  long long i;
  int a, c;
  for (i = segments - 1; i >= 1; i--) {
    const double *W = kept + (i - 1) * block;
    double *here = s + i * n, *next = here + n;
    for (a = n - 1; a >= 0; a--) {
      const double *row = W + a * w;
      double v = rhs[(i - 1) * n + a];
      for (c = 0; c < n; c++) v -= row[n + c] * s[c] + row[2 * n + c] * next[c];
      for (c = 0; c < m; c++) v -= row[3 * n + c] * p[c];
      for (c = a + 1; c < n; c++) v -= row[c] * here[c];
      here[a] = v / row[a];
    }
  }
}

static double at_least(double value, double size) { return fabs(value) > size ? fabs(value) : size; }

/* Links in typical sizes, growth over each segment, and what rounding leaves in each equation of segments and stages; what
   stands near zero came there from about its typical size. link (segments, n, n + m), stage (segments, stages, n + m). */
void dynident_measure(long long segments, int n, int m, int stages, const double *link, const double *stage, const double *z,
                      const double *size, double equation_rounding, double *scaled, double *growth, double *rounding,
                      double *large) {
  const int w = n + m;
  const long long count = (segments + 1) * n;
  const double *p = z + count, *Z = p + m;
  double *inner = rounding + count + m;
  long long i;
  int a, c;
  for (c = 0; c < m; c++) large[n + c] = at_least(p[c], size[n + c]);
  for (i = 0; i < segments; i++) {
    double most = 0;
    for (a = 0; a < n; a++) large[a] = at_least(z[i * n + a], size[a]);
    for (a = 0; a < n; a++, link += w, scaled += w) {
      double sum = 0, met = 0;
      for (c = 0; c < w; c++) {
        scaled[c] = link[c] * size[c] / size[a];
        met += fabs(link[c]) * large[c];
      }
      for (c = 0; c < n; c++) sum += fabs(scaled[c]);
      if (!(sum <= most)) most = sum;
      rounding[i * n + a] = equation_rounding * (met + at_least(z[(i + 1) * n + a], size[a]));
    }
    growth[i] = most;
    for (a = 0; a < stages; a++, stage += w) {
      double met = fabs(*Z++);
      for (c = 0; c < w; c++) met += fabs(stage[c]) * large[c];
      *inner++ = equation_rounding * met;
    }
  }
}
