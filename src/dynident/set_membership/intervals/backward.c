/* Backward steps of HC4: given y = f(a, b) and a narrower y, which a and b remain? Each only ever narrows. */

static void back_add(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    strip t;
    sub_(y, b, &t); intersect_(a, &t);
    sub_(y, a, &t); intersect_(b, &t);
}

static void back_sub(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    strip t;
    add_(y, b, &t); intersect_(a, &t);
    sub_(a, y, &t); intersect_(b, &t);
}

static void back_mul(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    strip t;
    mulrev_(y, b, &t); intersect_(a, &t);
    mulrev_(y, a, &t); intersect_(b, &t);
}

static void back_div(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    strip t;
    mul_(y, b, &t); intersect_(a, &t);
    mulrev_(a, y, &t); intersect_(b, &t);
}

static void back_inv(const strip *restrict y, strip *restrict a) { strip t; inv_(y, &t); intersect_(a, &t); }
static void back_neg(const strip *restrict y, strip *restrict a) { strip t; neg_(y, &t); intersect_(a, &t); }
static void back_twice(const strip *restrict y, strip *restrict a) { strip t; half_(y, &t); intersect_(a, &t); }

static inline ival met(ival a, ival b)
{
    double lo = larger(a.lo, b.lo), hi = smaller(a.hi, b.hi);
    return a.lo <= a.hi && b.lo <= b.hi && lo <= hi ? (ival){lo, hi} : (ival){NAN, NAN};
}

static inline ival joined(ival a, ival b)
{
    if (!(a.lo <= a.hi)) return b;
    if (!(b.lo <= b.hi)) return a;
    return (ival){smaller(a.lo, b.lo), larger(a.hi, b.hi)};
}

#define BACK(name, expression)                                                            \
    static void back_##name(const strip *restrict y, strip *restrict x)                   \
    {                                                                                     \
        EACH {                                                                            \
            ival a = {x->lo[i], x->hi[i]}, r = {y->lo[i], y->hi[i]};                      \
            a = expression;                                                               \
            x->lo[i] = a.lo;                                                              \
            x->hi[i] = a.hi;                                                              \
        }                                                                                 \
    }

/* a lies in r or in -r, for an r >= 0 */
static inline ival both_sides(ival a, ival r) { return joined(met(a, r), met(a, (ival){-r.hi, -r.lo})); }
static inline ival positive(ival r) { return met(r, (ival){0, INFINITY}); }
static inline ival squared(ival r)
{
    return r.lo <= r.hi ? (ival){larger(down(r.lo * r.lo), 0), up(r.hi * r.hi)} : r; /* for r >= 0 */
}
static inline ival tangent(ival r) /* inverse of atan, which stays within (-pi/2, pi/2) */
{
    if (!(r.lo <= r.hi) || r.hi < -PI_HI / 2 || r.lo > PI_HI / 2) return (ival){NAN, NAN};
    return (ival){r.lo <= -PI_LO / 2 ? -INFINITY : under(tan(smaller(r.lo, PI_LO / 2))),
                  r.hi >= PI_LO / 2 ? INFINITY : over(tan(larger(r.hi, -PI_LO / 2)))};
}
static inline ival side_of(ival a, ival r)
{
    if (r.lo > 0) return met(a, (ival){0, INFINITY});
    return r.hi < 0 ? met(a, (ival){-INFINITY, 0}) : r.lo <= r.hi ? a : r;
}

BACK(sq, both_sides(a, rooted(r.lo, r.hi)))
BACK(fabs, both_sides(a, positive(r)))
BACK(sqrt, met(a, squared(positive(r))))
BACK(exp, met(a, log_of(r.lo, r.hi)))
BACK(log, met(a, exp_of(r.lo, r.hi)))
BACK(tanh, met(a, atanh_of(r.lo, r.hi)))
BACK(sinh, met(a, asinh_of(r.lo, r.hi)))
BACK(cosh, both_sides(a, acosh_of(r.lo, r.hi)))
BACK(atan, met(a, tangent(r)))
BACK(asin, met(a, sin_of(larger(r.lo, -PI_HI / 2), smaller(r.hi, PI_HI / 2))))
BACK(acos, met(a, cos_of(larger(r.lo, 0), smaller(r.hi, PI_HI))))
BACK(sign, side_of(a, r))

/* x^n = y for a known n != 0 and x >= 0: x = exp(log(y)/n); other bases are left alone */
static void back_pow(const strip *restrict y, strip *restrict x, const strip *restrict exponent)
{
    EACH {
        double n = exponent->lo[i];
        if (!(x->lo[i] >= 0) || n != exponent->hi[i] || n == 0 || !(y->lo[i] > 0)) continue;
        ival l = log_of(y->lo[i], y->hi[i]), q = divided(l.lo, l.hi, n, n);
        ival a = met((ival){x->lo[i], x->hi[i]}, exp_of(q.lo, q.hi));
        x->lo[i] = a.lo;
        x->hi[i] = a.hi;
    }
}

/* min for s = 1; max is min of the negated ones, s = -1 */
static inline void extreme(ival y, ival *a, ival *b)
{
    ival a0 = *a, b0 = *b;
    *a = met(a0, b0.lo > y.hi ? y : (ival){y.lo, INFINITY});
    *b = met(b0, a0.lo > y.hi ? y : (ival){y.lo, INFINITY});
}

static void back_min(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    EACH {
        ival r = {y->lo[i], y->hi[i]}, p = {a->lo[i], a->hi[i]}, q = {b->lo[i], b->hi[i]};
        extreme(r, &p, &q);
        a->lo[i] = p.lo; a->hi[i] = p.hi; b->lo[i] = q.lo; b->hi[i] = q.hi;
    }
}

static void back_max(const strip *restrict y, strip *restrict a, strip *restrict b)
{
    EACH {
        ival r = {-y->hi[i], -y->lo[i]}, p = {-a->hi[i], -a->lo[i]}, q = {-b->hi[i], -b->lo[i]};
        extreme(r, &p, &q);
        a->lo[i] = -p.hi; a->hi[i] = -p.lo; b->lo[i] = -q.hi; b->hi[i] = -q.lo;
    }
}

/* a <= b where `holds` says so for certain, a >= b where it is impossible (a < b has the same closure) */
static void back_le(const strip *restrict holds, strip *restrict a, strip *restrict b)
{
    EACH {
        ival p = {a->lo[i], a->hi[i]}, q = {b->lo[i], b->hi[i]};
        if (holds->lo[i] > 0) {
            p = met(p, (ival){-INFINITY, q.hi});
            q = met(q, (ival){p.lo, INFINITY});
        } else if (holds->hi[i] == 0) {
            p = met(p, (ival){q.lo, INFINITY});
            q = met(q, (ival){-INFINITY, p.hi});
        }
        a->lo[i] = p.lo; a->hi[i] = p.hi; b->lo[i] = q.lo; b->hi[i] = q.hi;
    }
}

static void back_where(const strip *restrict y, strip *restrict k, strip *restrict a, strip *restrict b)
{
    EACH {
        ival r = {y->lo[i], y->hi[i]}, p = {a->lo[i], a->hi[i]}, q = {b->lo[i], b->hi[i]};
        double kl = k->lo[i], kh = k->hi[i];
        if (!(r.lo <= r.hi) || !(kl <= kh)) { k->lo[i] = k->hi[i] = NAN; continue; }
        int then = !FALSE_(kl, kh), otherwise = !TRUE_(kl, kh);
        ival fits_a = met(p, r), fits_b = met(q, r);
        then = then && fits_a.lo <= fits_a.hi;
        otherwise = otherwise && fits_b.lo <= fits_b.hi;
        if (!then && !otherwise) { k->lo[i] = k->hi[i] = NAN; continue; }
        if (!then) { ival none = met((ival){kl, kh}, (ival){0, 0}); k->lo[i] = none.lo; k->hi[i] = none.hi; }
        if (!otherwise) { a->lo[i] = fits_a.lo; a->hi[i] = fits_a.hi; }
        if (!then) { b->lo[i] = fits_b.lo; b->hi[i] = fits_b.hi; }
    }
}
