/* Elementary functions for several numbers at once: without a branch, so that a loop over them is done in lanes.

   Stands in front of generated code in place of elementary.c, whose functions are quicker for one number. */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Right to three units in the last place: tanh x = m / (m + 2) with m = exp(2 x) - 1, which is 2^k (exp(r) - 1) + 2^k - 1
   for 2 x = k log 2 + r. */
static inline double dyn_tanh(double x) {
  const double rounding = 6755399441055744.0; /* 1.5 2^52: a number added to it loses what is behind the point */
  const double size = fabs(x), twice = 2 * (size > 22 ? 22 : size); /* from 22 on it is 1 to the last digit */
  const double shifted = twice * 1.4426950408889634 + rounding, k = shifted - rounding;
  const double r = (twice - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10; /* log 2 in two parts */
  const double r2 = r * r, r4 = r2 * r2;
  const double first = (1.0 / 2 + r * (1.0 / 6)) + r2 * (1.0 / 24 + r * (1.0 / 120));
  const double second = (1.0 / 720 + r * (1.0 / 5040)) + r2 * (1.0 / 40320 + r * (1.0 / 362880));
  const double third = (1.0 / 3628800 + r * (1.0 / 39916800)) + r2 * (1.0 / 479001600 + r * (1.0 / 6227020800));
  const double less_one = r + r2 * (first + r4 * (second + r4 * third)); /* exp(r) - 1, by its series to r^15 / 15! */
  double power, m;
  int64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (int64_t)((uint64_t)(bits + 1023) << 52);
  memcpy(&power, &bits, sizeof power); /* 2^k */
  m = power * less_one + (power - 1);
  return copysign(m / (m + 2), x);
}
#define tanh dyn_tanh
