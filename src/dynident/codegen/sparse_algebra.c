/* Sparse product and band elimination: the linear algebra of a step. Stands in front of the printed products. */

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(n) ((n) > 0 ? (n) : 1)
#define PADDED(n) (((n) + 3) & ~3) /* numbers in a row: whole lanes, so that loops over a row have no remainder */
#if UNROLLED
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static __attribute__((unused))
#endif

/* K = J X for a matrix of many rows; those of few rows are printed. */
static inline void sparse_product(int rows, const int *start, const int *column, const double *restrict J,
                                  const double *restrict X, int w, double *restrict K) {
  int r, q, j;
  for (r = 0; r < rows; r++) {
    double *restrict row = K + r * w;
    for (j = 0; j < w; j++) row[j] = 0;
    for (q = start[r]; q < start[r + 1]; q++) {
      const double a = J[q];
      const double *restrict x = X + column[q] * w;
      for (j = 0; j < w; j++) row[j] += a * x[j];
    }
  }
}

/* A matrix within a band: n rows, `kl` entries left of the diagonal and `ku` right of it, and room for `kl` more that pivots
   bring; entry (i, j) is BAND(A, i)[j]. Where the band is all of it, rows stand as usual. */
#define BAND_WIDTH(n, kl, ku) ((kl) + 1 < (n) ? 2 * (kl) + (ku) + 1 : (n))
#define BAND(A, i, n, kl, ku) ((kl) + 1 < (n) ? (A) + (size_t)(i) * (2 * (kl) + (ku)) + (kl) : (A) + (size_t)(i) * (n))

/* A = P L U by elimination with pivots in columns; 0 if singular. U's diagonal is kept inverse: it is divided by again. */
INLINE int band_factor(int n, int kl, int ku, double *A, int *pivot) {
  int i, j, k;
  for (k = 0; k < n; k++) {
    const int last = k + kl < n - 1 ? k + kl : n - 1, right = k + kl + ku < n - 1 ? k + kl + ku : n - 1;
    double *restrict top;
    int best = k;
    for (i = k + 1; i <= last; i++)
      if (fabs(BAND(A, i, n, kl, ku)[k]) > fabs(BAND(A, best, n, kl, ku)[k])) best = i;
    pivot[k] = best;
    top = BAND(A, k, n, kl, ku);
    if (best != k) {
      double *restrict other = BAND(A, best, n, kl, ku);
      for (j = k; j <= right; j++) { const double s = top[j]; top[j] = other[j]; other[j] = s; }
    }
    if (!(fabs(top[k]) > 0)) return 0;
    top[k] = 1 / top[k];
    for (i = k + 1; i <= last; i++) {
      double *restrict row = BAND(A, i, n, kl, ku);
      const double f = row[k] * top[k];
      row[k] = f;
      if (f == 0) continue;
      for (j = k + 1; j <= right; j++) row[j] -= f * top[j];
    }
  }
  return 1;
}

/* B <- A^-1 B for m columns. */
INLINE void band_solve(int n, int kl, int ku, const double *A, const int *pivot, double *B, int m) {
  int i, j, k;
  for (k = 0; k < n; k++) {
    const int last = k + kl < n - 1 ? k + kl : n - 1;
    double *restrict top = B + (size_t)k * m;
    if (pivot[k] != k) {
      double *restrict other = B + (size_t)pivot[k] * m;
      for (j = 0; j < m; j++) { const double s = top[j]; top[j] = other[j]; other[j] = s; }
    }
    for (i = k + 1; i <= last; i++) {
      const double f = BAND(A, i, n, kl, ku)[k];
      double *restrict row = B + (size_t)i * m;
      if (f == 0) continue;
      for (j = 0; j < m; j++) row[j] -= f * top[j];
    }
  }
  for (i = n - 1; i >= 0; i--) {
    const int right = i + kl + ku < n - 1 ? i + kl + ku : n - 1;
    const double *a = BAND(A, i, n, kl, ku);
    double *restrict row = B + (size_t)i * m;
    for (k = i + 1; k <= right; k++) {
      const double *restrict below = B + (size_t)k * m;
      if (a[k] == 0) continue;
      for (j = 0; j < m; j++) row[j] -= a[k] * below[j];
    }
    for (j = 0; j < m; j++) row[j] *= a[i];
  }
}
