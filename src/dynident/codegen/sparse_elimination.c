/* Sparse elimination: a matrix with b x b numbers at each place, eliminated in the order of its tables; no rows are exchanged.

   The text in front of this one defines NX, PLACES and the tables that codegen/sparse_elimination.py prints. */

#define MOST_BLOCK 3
#define BACKWARD_ERROR 1e-12 /* of the terms of an equation: factors that miss it by more are not used */

/* D <- D^-1 within a block, by pivots in columns; 0 if singular. */
static inline int block_inverse(int b, double *D) {
  double A[MOST_BLOCK][2 * MOST_BLOCK];
  int i, j, k;
  for (i = 0; i < b; i++)
    for (j = 0; j < b; j++) { A[i][j] = D[i * b + j]; A[i][b + j] = i == j; }
  for (k = 0; k < b; k++) {
    int best = k;
    double inverse;
    for (i = k + 1; i < b; i++) if (fabs(A[i][k]) > fabs(A[best][k])) best = i;
    if (best != k) for (j = 0; j < 2 * b; j++) { const double s = A[k][j]; A[k][j] = A[best][j]; A[best][j] = s; }
    if (!(fabs(A[k][k]) > 0)) return 0;
    inverse = 1 / A[k][k];
    for (j = 0; j < 2 * b; j++) A[k][j] *= inverse;
    for (i = 0; i < b; i++) {
      const double f = A[i][k];
      if (i == k) continue;
      for (j = k; j < 2 * b; j++) A[i][j] -= f * A[k][j];
    }
  }
  for (i = 0; i < b; i++)
    for (j = 0; j < b; j++) D[i * b + j] = A[i][b + j];
  return 1;
}

/* A = L U place by place; inverse blocks on the diagonal. */
static inline int sparse_factor(int b, double *restrict A) {
  const int size = b * b;
  int k, q, i, j, l;
  for (k = 0; k < NX; k++) {
    double *D = A + PIVOT_PLACE[k] * size;
    if (!block_inverse(b, D)) return 0;
    for (q = BELOW_START[k]; q < BELOW_START[k + 1]; q++) {
      double *L = A + BELOW_PLACE[q] * size, old[MOST_BLOCK * MOST_BLOCK];
      for (i = 0; i < size; i++) old[i] = L[i];
      for (i = 0; i < b; i++)
        for (j = 0; j < b; j++) {
          double sum = 0;
          for (l = 0; l < b; l++) sum += old[i * b + l] * D[l * b + j];
          L[i * b + j] = sum;
        }
    }
    for (q = PRODUCT_START[k]; q < PRODUCT_START[k + 1]; q++) {
      double *restrict to = A + PRODUCT[3 * q] * size;
      const double *L = A + PRODUCT[3 * q + 1] * size, *U = A + PRODUCT[3 * q + 2] * size;
      for (i = 0; i < b; i++)
        for (l = 0; l < b; l++)
          for (j = 0; j < b; j++) to[i * b + j] -= L[i * b + l] * U[l * b + j];
    }
  }
  return 1;
}

/* B <- A^-1 B for w columns; the rows of state r stand in the rows r, NX + r, ... of B. */
static inline void sparse_solve(int b, const double *A, double *restrict B, int w) {
  const int size = b * b;
  int k, q, i, j, l;
  for (k = 0; k < NX; k++)
    for (q = BELOW_START[k]; q < BELOW_START[k + 1]; q++) {
      const double *L = A + BELOW_PLACE[q] * size;
      for (i = 0; i < b; i++)
        for (l = 0; l < b; l++) {
          double *restrict to = B + (i * NX + BELOW_ROW[q]) * w;
          const double *restrict from = B + (l * NX + PIVOT[k]) * w;
          for (j = 0; j < w; j++) to[j] -= L[i * b + l] * from[j];
        }
    }
  for (k = NX - 1; k >= 0; k--) {
    const double *D = A + PIVOT_PLACE[k] * size;
    for (q = RIGHT_START[k]; q < RIGHT_START[k + 1]; q++) {
      const double *U = A + RIGHT_PLACE[q] * size;
      for (i = 0; i < b; i++)
        for (l = 0; l < b; l++) {
          double *restrict to = B + (i * NX + PIVOT[k]) * w;
          const double *restrict from = B + (l * NX + RIGHT_COLUMN[q]) * w;
          for (j = 0; j < w; j++) to[j] -= U[i * b + l] * from[j];
        }
    }
    for (j = 0; j < w; j++) {
      double old[MOST_BLOCK];
      for (i = 0; i < b; i++) old[i] = B[(i * NX + PIVOT[k]) * w + j];
      for (i = 0; i < b; i++) {
        double sum = 0;
        for (l = 0; l < b; l++) sum += D[i * b + l] * old[l];
        B[(i * NX + PIVOT[k]) * w + j] = sum;
      }
    }
  }
}

/* Factors of `A` into `factors`; 0 where one is singular, or where the growth of numbers cost digits, as nothing was exchanged:
   by the backward error of a solution, each equation relative to its own terms (Oettli and Prager). */
static inline int sparse_factor_checked(int b, const double *A, double *restrict factors) {
  double sums[MOST_BLOCK * NX], y[MOST_BLOCK * NX], lack[MOST_BLOCK * NX], terms[MOST_BLOCK * NX];
  int q, i, l;
  memcpy(factors, A, PLACES * b * b * sizeof(double));
  if (!sparse_factor(b, factors)) return 0;
  memset(sums, 0, sizeof sums);
  memset(terms, 0, sizeof terms);
  for (q = 0; q < PLACES; q++)
    for (i = 0; i < b; i++)
      for (l = 0; l < b; l++) sums[i * NX + PLACE_ROW[q]] += A[(q * b + i) * b + l];
  memcpy(y, sums, sizeof y);
  memcpy(lack, sums, sizeof lack);
  sparse_solve(b, factors, y, 1);
  for (q = 0; q < PLACES; q++)
    for (i = 0; i < b; i++)
      for (l = 0; l < b; l++) {
        const double term = A[(q * b + i) * b + l] * y[l * NX + PLACE_COLUMN[q]];
        lack[i * NX + PLACE_ROW[q]] -= term;
        terms[i * NX + PLACE_ROW[q]] += fabs(term);
      }
  for (i = 0; i < b * NX; i++) if (!(fabs(lack[i]) <= BACKWARD_ERROR * (fabs(sums[i]) + terms[i]))) return 0;
  return 1;
}

/* The same for one number and for the stages of a step, each compiled once. */
#define APART static __attribute__((noinline, unused))
APART int factor_numbers(const double *A, double *factors) { return sparse_factor_checked(1, A, factors); }
APART void solve_numbers(const double *A, double *B) { sparse_solve(1, A, B, 1); }
APART int factor_stages(const double *A, double *factors) { return sparse_factor_checked(STAGES, A, factors); }
APART void solve_stages(const double *A, double *B, int w) { sparse_solve(STAGES, A, B, w); }
