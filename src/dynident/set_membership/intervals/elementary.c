/* Elementary functions over strips: libm's value and a margin on each side.

   The margin is an assumption: libm's error is below MARGIN_ULP units in the last place. glibc documents at most 2 for
   these functions. Results that rest on it say so. Ranges that mathematics gives (|sin| <= 1, exp > 0) are kept. */

#define MARGIN_ULP 4
#define WIDE (MARGIN_ULP * DBL_EPSILON)
#define PI_LO 0x1.921fb54442d18p+1
#define PI_HI 0x1.921fb54442d19p+1

static inline double under(double c) { c = c > TOP ? TOP : c; return c - (WIDE * fabs(c) + 2 * MARGIN_ULP * ETA); }
static inline double over(double c) { c = c < -TOP ? -TOP : c; return c + (WIDE * fabs(c) + 2 * MARGIN_ULP * ETA); }
static inline double within(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

#define GROWING(name, call, least, most, domain_lo, domain_hi)                                          \
    static inline ival name##_of(double al, double ah)                                                  \
    {                                                                                                   \
        if (!(al <= ah) || al > (domain_hi) || ah < (domain_lo)) return (ival){NAN, NAN};               \
        al = al < (domain_lo) ? (domain_lo) : al;                                                       \
        ah = ah > (domain_hi) ? (domain_hi) : ah;                                                       \
        return (ival){within(under(call(al)), least, most), within(over(call(ah)), least, most)};       \
    }                                                                                                   \
    static void name##_(const strip *restrict a, strip *restrict c)                                     \
    {                                                                                                   \
        EACH { ival r = name##_of(a->lo[i], a->hi[i]); c->lo[i] = r.lo; c->hi[i] = r.hi; }              \
    }

GROWING(exp, exp, 0, INFINITY, -INFINITY, INFINITY)
GROWING(sinh, sinh, -INFINITY, INFINITY, -INFINITY, INFINITY)
GROWING(tanh, tanh, -1, 1, -INFINITY, INFINITY)
GROWING(atan, atan, -PI_HI / 2, PI_HI / 2, -INFINITY, INFINITY)
GROWING(asin, asin, -PI_HI / 2, PI_HI / 2, -1, 1)
GROWING(asinh, asinh, -INFINITY, INFINITY, -INFINITY, INFINITY)
GROWING(atanh, atanh, -INFINITY, INFINITY, -1, 1)
GROWING(acosh, acosh, 0, INFINITY, 1, INFINITY)

static inline ival log_of(double al, double ah)
{
    if (!(al <= ah) || ah <= 0) return (ival){NAN, NAN};
    return (ival){al <= 0 ? -INFINITY : under(log(al)), over(log(ah))};
}

static inline ival acos_of(double al, double ah)
{
    if (!(al <= ah) || al > 1 || ah < -1) return (ival){NAN, NAN};
    return (ival){larger(under(acos(smaller(ah, 1))), 0), smaller(over(acos(larger(al, -1))), PI_HI)};
}

static inline ival cosh_of(double al, double ah)
{
    if (!(al <= ah)) return (ival){NAN, NAN};
    double near = al <= 0 && ah >= 0 ? 0 : smaller(fabs(al), fabs(ah)), far = larger(fabs(al), fabs(ah));
    return (ival){larger(under(cosh(near)), 1), over(cosh(far))};
}

/* may x/period - shift be a whole number for an x in [al, ah]? Never a wrong no. */
static inline int meets(double al, double ah, double factor, double shift)
{
    ival q = divided(al, al, factor * PI_LO, factor * PI_HI), r = divided(ah, ah, factor * PI_LO, factor * PI_HI);
    return ceil(down(q.lo - shift)) <= up(r.hi - shift);
}

static inline ival wave(double al, double ah, double at_al, double at_ah, double top, double bottom)
{
    double lo = meets(al, ah, 2, bottom) ? -1 : within(under(smaller(at_al, at_ah)), -1, 1);
    double hi = meets(al, ah, 2, top) ? 1 : within(over(larger(at_al, at_ah)), -1, 1);
    return (ival){lo, hi};
}

static inline ival sin_of(double al, double ah)
{
    if (!(al <= ah)) return (ival){NAN, NAN};
    if (isinf(al) || isinf(ah)) return (ival){-1, 1};
    return wave(al, ah, sin(al), sin(ah), 0.25, -0.25);
}

static inline ival cos_of(double al, double ah)
{
    if (!(al <= ah)) return (ival){NAN, NAN};
    if (isinf(al) || isinf(ah)) return (ival){-1, 1};
    return wave(al, ah, cos(al), cos(ah), 0, 0.5);
}

static inline ival tan_of(double al, double ah)
{
    if (!(al <= ah)) return (ival){NAN, NAN};
    if (isinf(al) || isinf(ah) || meets(al, ah, 1, 0.5)) return (ival){-INFINITY, INFINITY};
    return (ival){under(tan(al)), over(tan(ah))};
}

#define UNARY(name)                                                                            \
    static void name##_(const strip *restrict a, strip *restrict c)                            \
    {                                                                                          \
        EACH { ival r = name##_of(a->lo[i], a->hi[i]); c->lo[i] = r.lo; c->hi[i] = r.hi; }     \
    }
UNARY(log) UNARY(acos) UNARY(cosh) UNARY(sin) UNARY(cos) UNARY(tan)

/* angle of the point (x, y); the cut is y = 0, x < 0, where the angle is +pi */
static inline ival angle_of(double yl, double yh, double xl, double xh)
{
    if (!(yl <= yh) || !(xl <= xh)) return (ival){NAN, NAN};
    if (xl < 0 && yl < 0 && yh >= 0) return (ival){-PI_HI, PI_HI};
    yl += 0.0; yh += 0.0; xl += 0.0; xh += 0.0; /* no negative zero: its angle is another one */
    double p = atan2(yl, xl), q = atan2(yl, xh), r = atan2(yh, xl), s = atan2(yh, xh);
    double lo = smaller(smaller(p, q), smaller(r, s)), hi = larger(larger(p, q), larger(r, s));
    if (xl <= 0 && xh >= 0 && yl <= 0 && yh >= 0) { lo = smaller(lo, 0); hi = larger(hi, 0); }
    return (ival){larger(under(lo), -PI_HI), smaller(over(hi), PI_HI)};
}

static void atan2_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH { ival r = angle_of(a->lo[i], a->hi[i], b->lo[i], b->hi[i]); c->lo[i] = r.lo; c->hi[i] = r.hi; }
}

/* x^n on x >= 0, growing or falling */
static inline ival half_power(double al, double ah, double n)
{
    if (!(ah >= 0)) return (ival){NAN, NAN};
    al = al < 0 ? 0 : al;
    if (n > 0) return (ival){larger(under(pow(al, n)), 0), over(pow(ah, n))};
    if (ah == 0) return (ival){NAN, NAN};
    return (ival){larger(under(pow(ah, n)), 0), al == 0 ? INFINITY : over(pow(al, n))};
}

static inline ival power_of(double al, double ah, double n)
{
    if (!(al <= ah)) return (ival){NAN, NAN};
    if (n == 0) return (ival){1, 1};
    if (n != floor(n)) return half_power(al, ah, n);
    int even = fmod(n, 2) == 0;
    ival right = half_power(al, ah, n), left = half_power(-ah, -al, n);
    if (!even) left = (ival){-left.hi, -left.lo};
    if (!(al < 0)) return right;
    if (!(ah > 0)) return left;
    return (ival){fmin(left.lo, right.lo), fmax(left.hi, right.hi)};
}

static inline ival general_power(double al, double ah, double bl, double bh)
{
    if (!(al <= ah) || !(bl <= bh)) return (ival){NAN, NAN};
    if (bl == bh) return power_of(al, ah, bl);
    if (al < 0) return (ival){-INFINITY, INFINITY}; /* whole exponents among the others: every sign occurs */
    double p = pow(al, bl), q = pow(al, bh), r = pow(ah, bl), s = pow(ah, bh);
    if (p != p || q != q || r != r || s != s) return (ival){0, INFINITY};
    double lo = smaller(smaller(p, q), smaller(r, s)), hi = larger(larger(p, q), larger(r, s));
    if (bl <= 0 && bh >= 0) { lo = smaller(lo, 1); hi = larger(hi, 1); }
    if (al == 0 && bh > 0) lo = 0;
    if (isinf(al) || isinf(ah) || isinf(bl) || isinf(bh) || (al == 0 && bl < 0)) return (ival){0, INFINITY};
    return (ival){larger(under(lo), 0), over(hi)};
}

static void pow_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH { ival r = general_power(a->lo[i], a->hi[i], b->lo[i], b->hi[i]); c->lo[i] = r.lo; c->hi[i] = r.hi; }
}
