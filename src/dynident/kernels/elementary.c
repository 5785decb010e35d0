/* Elementary: functions that models ask for more often than others, quicker than those of the C library.

   Stands in front of generated code. Friction laws make tanh the most frequent of them. */

#include <math.h>
#include <stdint.h>

#define TANH_ONE 20.0 /* beyond it tanh is 1 to the last digit */
#define LN2_HIGH 6.93147180369123816490e-01 /* ln 2 with zeros at its end, so that small multiples are exact */
#define LN2_LOW 1.90821492927058770002e-10

/* tanh x = e / (e + 2) with e = exp(2|x|) - 1 = 2^n exp(r) - 1, |r| <= ln(2)/2; within 3 units in the last place. */
static inline double dyn_tanh(double x) {
  const double a = fabs(x) > TANH_ONE ? TANH_ONE : fabs(x); /* NaN stays NaN */
  const double n = floor(2 * a / (LN2_HIGH + LN2_LOW) + 0.5);
  const double r = (2 * a - n * LN2_HIGH) - n * LN2_LOW;
  const double r2 = r * r, r4 = r2 * r2;
  const double series = (1. / 2 + r / 6) + r2 * (1. / 24 + r / 120) /* (exp(r) - 1 - r) / r^2 */
      + r4 * ((1. / 720 + r / 5040) + r2 * (1. / 40320 + r / 362880)
              + r4 * ((1. / 3628800 + r / 39916800) + r2 * (1. / 479001600 + r / 6227020800.)));
  union { double value; int64_t bits; } power;
  double e;
  power.bits = ((int64_t)n + 1023) << 52; /* 2^n */
  e = power.value * (r + r2 * series) + (power.value - 1);
  return copysign(e / (e + 2), x);
}
#define tanh dyn_tanh
