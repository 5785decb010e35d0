/* Elementary: functions that models ask for more often than others, quicker than those of the C library.

   Stands in front of generated code. Friction laws make tanh the most frequent of them. */

#include <math.h>

/* Half the time of most libraries, right to two units in the last place: near zero the rational approximation of Cephes
   (S. Moshier), elsewhere by the exponential. */
static double dyn_tanh(double x) {
  const double size = fabs(x);
  if (size < 0.625) {
    const double s = x * x;
    const double above = (-9.64399179425052238628e-1 * s - 9.92877231001918586564e1) * s - 1.61468768441708447952e3;
    const double below = ((s + 1.12811678491632931402e2) * s + 2.23548839060100448583e3) * s + 4.84406305325125486048e3;
    return x + x * s * (above / below);
  }
  if (size > 22) return copysign(1.0, x); /* to the last digit; keeps the exponential finite */
  {
    const double far = 1 - 2 / (exp(2 * size) + 1);
    return isnan(x) ? x : copysign(far, x);
  }
}
#define tanh dyn_tanh
