/* Vectors: what the loops of linear algebra have in common. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64 /* rows reflected at a time; they stay in the first-level cache */
#define LANES 4  /* numbers that the processor multiplies at once, on most of them */

typedef double vec __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

static double total(vec v) {
  double s = 0;
  int l;
  for (l = 0; l < LANES; l++) s += v[l];
  return s;
}
