/* Interval arithmetic over strips of boxes, rounded outward without touching the rounding mode.

   An interval is [lo, hi]; the empty one is [NaN, NaN]; infinite ends are ends, never members.

   Outward step. Let c = fl(x) be a rounded result, u = 2^-53, and e = fl(fl(PHI |c|) + ETA) with PHI = u(1 + 2^-51)
   and ETA = 2^-1074. Rounding loses less than PHI gained over u, and ETA covers an underflow of the product, so e is
   larger than u |c|, hence than half the distance from c to its neighbour away from zero; c - e lies strictly below the
   midpoint between c and its predecessor, and fl(c - e) <= pred(c) <= x. Likewise upwards. A sum that is zero is exactly
   zero. An overflowed lower end is brought back to the largest number before the step. The proof asks for rounding to
   nearest and for no contraction of a*b + c (-ffp-contract=off). */

#include <math.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#define W 64 /* boxes per strip: a tape's values stay in the first cache */
#define PHI 0x1.0000000000002p-53
#define ETA 0x1p-1074
#define TOP DBL_MAX

typedef struct { double lo[W], hi[W]; } strip;
typedef struct { double lo, hi; } ival;

#define EACH for (int i = 0; i < W; i++)

static inline double smaller(double a, double b) { return a < b ? a : b; }
static inline double larger(double a, double b) { return a > b ? a : b; }

static inline double step_of(double c) { return PHI * fabs(c) + ETA; }
static inline double down(double c) { c = c > TOP ? TOP : c; return c - step_of(c); }
static inline double up(double c) { c = c < -TOP ? -TOP : c; return c + step_of(c); }
/* sums: zero is exact */
static inline double step_of_sum(double c) { double m = fabs(c); return PHI * m + (m > ETA ? ETA : m); }
static inline double down_sum(double c) { c = c > TOP ? TOP : c; return c - step_of_sum(c); }
static inline double up_sum(double c) { c = c < -TOP ? -TOP : c; return c + step_of_sum(c); }

static void add_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH { c->lo[i] = down_sum(a->lo[i] + b->lo[i]); c->hi[i] = up_sum(a->hi[i] + b->hi[i]); }
}

static void sub_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH { c->lo[i] = down_sum(a->lo[i] - b->hi[i]); c->hi[i] = up_sum(a->hi[i] - b->lo[i]); }
}

static void neg_(const strip *restrict a, strip *restrict c)
{
    EACH { double lo = a->lo[i]; c->lo[i] = -a->hi[i]; c->hi[i] = -lo; }
}

static void twice_(const strip *restrict a, strip *restrict c)
{
    EACH {
        double lo = 2 * a->lo[i], hi = 2 * a->hi[i]; /* exact up to overflow */
        c->lo[i] = lo > TOP ? TOP : lo;
        c->hi[i] = hi < -TOP ? -TOP : hi;
    }
}

static void half_(const strip *restrict a, strip *restrict c)
{
    EACH { c->lo[i] = down(0.5 * a->lo[i]); c->hi[i] = up(0.5 * a->hi[i]); }
}

/* 0 times an end is 0, an infinite end included: it is never reached. Emptiness is put back by `or_empty`. */
static inline double product(double a, double b) { double p = a * b; return p != p ? 0 : p; }
static inline double or_empty(double x, double al, double bl) { x = al != al ? al : x; return bl != bl ? bl : x; }

/* written with choices between numbers only, which compilers turn into vector code */
static void mul_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH {
        double al = a->lo[i], ah = a->hi[i], bl = b->lo[i], bh = b->hi[i];
        double p = product(al, bl), q = product(al, bh), r = product(ah, bl), s = product(ah, bh);
        double lo = down(smaller(smaller(p, q), smaller(r, s))), hi = up(larger(larger(p, q), larger(r, s)));
        /* the step must not cost the sign: factors of one sign, of unlike signs, and exact zeros */
        double floor1 = smaller(al, bl) >= 0 ? 0 : -INFINITY, floor2 = larger(ah, bh) <= 0 ? 0 : -INFINITY;
        double roof1 = smaller(al, -bh) >= 0 ? 0 : INFINITY, roof2 = larger(ah, -bl) <= 0 ? 0 : INFINITY;
        lo = larger(lo, larger(floor1, floor2));
        hi = smaller(hi, smaller(roof1, roof2));
        double least = smaller(larger(fabs(al), fabs(ah)), larger(fabs(bl), fabs(bh)));
        lo = least == 0 ? 0 : lo;
        hi = least == 0 ? 0 : hi;
        c->lo[i] = or_empty(lo, al, bl);
        c->hi[i] = or_empty(hi, al, bl);
    }
}

static inline double ratio(double a, double b) { double q = a / b; return q != q ? 0 : q; } /* inf/inf: 0 is met too */

static inline ival divided(double al, double ah, double bl, double bh)
{
    if (!(al <= ah) || !(bl <= bh) || (bl == 0 && bh == 0)) return (ival){NAN, NAN};
    if (al == 0 && ah == 0) return (ival){0, 0};
    if (bl > 0 || bh < 0) {
        double p = ratio(al, bl), q = ratio(al, bh), r = ratio(ah, bl), s = ratio(ah, bh);
        double lo = down(smaller(smaller(p, q), smaller(r, s))), hi = up(larger(larger(p, q), larger(r, s)));
        if (((al >= 0 && bl > 0) || (ah <= 0 && bh < 0)) && lo < 0) lo = 0;
        if (((al >= 0 && bh < 0) || (ah <= 0 && bl > 0)) && hi > 0) hi = 0;
        return (ival){lo, hi};
    }
    if ((al <= 0 && ah >= 0) || (bl < 0 && bh > 0)) return (ival){-INFINITY, INFINITY};
    if (bl == 0) return al > 0 ? (ival){larger(down(ratio(al, bh)), 0), INFINITY}
                               : (ival){-INFINITY, smaller(up(ratio(ah, bh)), 0)};
    return al > 0 ? (ival){-INFINITY, smaller(up(ratio(al, bl)), 0)} : (ival){larger(down(ratio(ah, bl)), 0), INFINITY};
}

/* every divisor of the strip on one side of zero: no case but the plain one */
static int plain_divisors(const strip *restrict b)
{
    int plain = 1;
    EACH { plain &= b->lo[i] > 0 || b->hi[i] < 0; }
    return plain;
}

static void div_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    if (!plain_divisors(b)) {
        EACH { ival q = divided(a->lo[i], a->hi[i], b->lo[i], b->hi[i]); c->lo[i] = q.lo; c->hi[i] = q.hi; }
        return;
    }
    EACH {
        double al = a->lo[i], ah = a->hi[i], bl = b->lo[i], bh = b->hi[i];
        double p = ratio(al, bl), q = ratio(al, bh), r = ratio(ah, bl), s = ratio(ah, bh);
        double lo = down(smaller(smaller(p, q), smaller(r, s))), hi = up(larger(larger(p, q), larger(r, s)));
        double floor1 = smaller(al, bl) >= 0 ? 0 : -INFINITY, floor2 = larger(ah, bh) <= 0 ? 0 : -INFINITY;
        double roof1 = smaller(al, -bh) >= 0 ? 0 : INFINITY, roof2 = larger(ah, -bl) <= 0 ? 0 : INFINITY;
        double far = larger(fabs(al), fabs(ah));
        lo = larger(lo, larger(floor1, floor2));
        hi = smaller(hi, smaller(roof1, roof2));
        lo = far == 0 ? 0 : lo;
        hi = far == 0 ? 0 : hi;
        c->lo[i] = or_empty(lo, al, bl);
        c->hi[i] = or_empty(hi, al, bl);
    }
}

static void inv_(const strip *restrict a, strip *restrict c)
{
    EACH { ival q = divided(1, 1, a->lo[i], a->hi[i]); c->lo[i] = q.lo; c->hi[i] = q.hi; }
}

/* all x with x*b in y: everything where both hold zero */
static void mulrev_(const strip *restrict y, const strip *restrict b, strip *restrict c)
{
    if (plain_divisors(b)) {
        div_(y, b, c);
        return;
    }
    EACH {
        double yl = y->lo[i], yh = y->hi[i], bl = b->lo[i], bh = b->hi[i];
        ival q = yl <= 0 && yh >= 0 && bl <= 0 && bh >= 0 ? (ival){-INFINITY, INFINITY} : divided(yl, yh, bl, bh);
        c->lo[i] = q.lo;
        c->hi[i] = q.hi;
    }
}

static void sq_(const strip *restrict a, strip *restrict c)
{
    EACH {
        double al = a->lo[i], ah = a->hi[i], below = fabs(al), above = fabs(ah);
        double near = smaller(below, above), far = larger(below, above);
        int crosses = (al <= 0) & (ah >= 0), defined = al <= ah;
        double lo = down(near * near), hi = up(far * far);
        lo = crosses | (lo < 0) ? 0 : lo;
        hi = far == 0 ? 0 : hi;
        c->lo[i] = defined ? lo : NAN;
        c->hi[i] = defined ? hi : NAN;
    }
}

static inline ival rooted(double al, double ah)
{
    if (!(ah >= 0)) return (ival){NAN, NAN};
    return (ival){al <= 0 ? 0 : larger(down(sqrt(al)), 0), ah == 0 ? 0 : up(sqrt(ah))};
}

static void sqrt_(const strip *restrict a, strip *restrict c)
{
    EACH { ival r = rooted(a->lo[i], a->hi[i]); c->lo[i] = r.lo; c->hi[i] = r.hi; }
}

static void fabs_(const strip *restrict a, strip *restrict c)
{
    EACH {
        double al = a->lo[i], ah = a->hi[i], below = fabs(al), above = fabs(ah);
        int crosses = (al <= 0) & (ah >= 0), defined = al <= ah;
        double lo = crosses ? 0 : smaller(below, above), hi = larger(below, above);
        c->lo[i] = defined ? lo : NAN;
        c->hi[i] = defined ? hi : NAN;
    }
}

static void min_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH {
        int defined = (a->lo[i] <= a->hi[i]) & (b->lo[i] <= b->hi[i]);
        double lo = smaller(a->lo[i], b->lo[i]), hi = smaller(a->hi[i], b->hi[i]);
        c->lo[i] = defined ? lo : NAN;
        c->hi[i] = defined ? hi : NAN;
    }
}

static void max_(const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH {
        int defined = (a->lo[i] <= a->hi[i]) & (b->lo[i] <= b->hi[i]);
        double lo = larger(a->lo[i], b->lo[i]), hi = larger(a->hi[i], b->hi[i]);
        c->lo[i] = defined ? lo : NAN;
        c->hi[i] = defined ? hi : NAN;
    }
}

static inline double sign_of(double x) { return x != x ? x : (double)((x > 0) - (x < 0)); }

static void sign_(const strip *restrict a, strip *restrict c)
{
    EACH { c->lo[i] = sign_of(a->lo[i]); c->hi[i] = sign_of(a->hi[i]); }
}

/* truth as an interval: [1, 1] certain, [0, 0] impossible, [0, 1] open */
static inline ival truth(int certain, int impossible, int defined)
{
    if (!defined) return (ival){NAN, NAN};
    return (ival){certain ? 1 : 0, impossible ? 0 : 1};
}

#define COMPARE(name, certain, impossible)                                                     \
    static void name(const strip *restrict a, const strip *restrict b, strip *restrict c)      \
    {                                                                                          \
        EACH {                                                                                 \
            double al = a->lo[i], ah = a->hi[i], bl = b->lo[i], bh = b->hi[i];                 \
            ival t = truth(certain, impossible, al <= ah && bl <= bh);                         \
            c->lo[i] = t.lo;                                                                   \
            c->hi[i] = t.hi;                                                                   \
        }                                                                                      \
    }
#define TRUE_(lo, hi) ((lo) > 0 || (hi) < 0)
#define FALSE_(lo, hi) ((lo) == 0 && (hi) == 0)
COMPARE(lt_, ah < bl, al >= bh)
COMPARE(le_, ah <= bl, al > bh)
COMPARE(eq_, al == ah && bl == bh && al == bl, ah < bl || bh < al)
COMPARE(ne_, ah < bl || bh < al, al == ah && bl == bh && al == bl)
COMPARE(and_, TRUE_(al, ah) && TRUE_(bl, bh), FALSE_(al, ah) || FALSE_(bl, bh))
COMPARE(or_, TRUE_(al, ah) || TRUE_(bl, bh), FALSE_(al, ah) && FALSE_(bl, bh))

static void not_(const strip *restrict a, strip *restrict c)
{
    EACH {
        double al = a->lo[i], ah = a->hi[i];
        ival t = truth(FALSE_(al, ah), TRUE_(al, ah), al <= ah);
        c->lo[i] = t.lo;
        c->hi[i] = t.hi;
    }
}

/* the branch not taken adds nothing, not even its emptiness */
static void where_(const strip *restrict k, const strip *restrict a, const strip *restrict b, strip *restrict c)
{
    EACH {
        double kl = k->lo[i], kh = k->hi[i];
        int then = kl <= kh && !FALSE_(kl, kh), otherwise = kl <= kh && !TRUE_(kl, kh);
        int has_a = then && a->lo[i] <= a->hi[i], has_b = otherwise && b->lo[i] <= b->hi[i];
        if (has_a && has_b) {
            c->lo[i] = smaller(a->lo[i], b->lo[i]);
            c->hi[i] = larger(a->hi[i], b->hi[i]);
        } else {
            c->lo[i] = has_a ? a->lo[i] : has_b ? b->lo[i] : NAN;
            c->hi[i] = has_a ? a->hi[i] : has_b ? b->hi[i] : NAN;
        }
    }
}

static void intersect_(strip *restrict a, const strip *restrict b)
{
    EACH {
        double al = a->lo[i], ah = a->hi[i], bl = b->lo[i], bh = b->hi[i];
        double lo = larger(al, bl), hi = smaller(ah, bh);
        int defined = (al <= ah) & (bl <= bh) & (lo <= hi);
        a->lo[i] = defined ? lo : NAN;
        a->hi[i] = defined ? hi : NAN;
    }
}
