/* The tape: an expression graph as a list of operations, run over boxes strip by strip, forward and backward. */

enum { INPUT, CONST, ADD, SUB, MUL, DIV, NEG, TWICE, SQ, INV, SQRT, FABS, SIGN, MIN, MAX, LT, LE, EQ, NE, NOT, AND, OR,
       WHERE, EXP, LOG, SIN, COS, TAN, ASIN, ACOS, ATAN, ATAN2, SINH, COSH, TANH, POW, COPY };

/* `required`: part of the result whatever the conditions say. A branch of `where` is not, and narrows nothing: that its
   square root exists must not be asked of a box in which it may not be taken. */
typedef struct { int32_t op, a, b, c, required; } instruction;

static void set_constants(const instruction *tape, int64_t length, const double *constants, strip *v)
{
    for (int64_t k = 0; k < length; k++)
        if (tape[k].op == CONST) EACH { v[k].lo[i] = v[k].hi[i] = constants[tape[k].a]; }
}

static void forward(const instruction *tape, int64_t length, strip *v)
{
    for (int64_t k = 0; k < length; k++) {
        instruction n = tape[k];
        strip *y = v + k, *a = v + n.a, *b = v + n.b, *c = v + n.c;
        switch (n.op) {
        case INPUT: break;
        case CONST: break;
        case ADD: add_(a, b, y); break;
        case SUB: sub_(a, b, y); break;
        case MUL: mul_(a, b, y); break;
        case DIV: div_(a, b, y); break;
        case NEG: neg_(a, y); break;
        case TWICE: twice_(a, y); break;
        case SQ: sq_(a, y); break;
        case INV: inv_(a, y); break;
        case SQRT: sqrt_(a, y); break;
        case FABS: fabs_(a, y); break;
        case SIGN: sign_(a, y); break;
        case MIN: min_(a, b, y); break;
        case MAX: max_(a, b, y); break;
        case LT: lt_(a, b, y); break;
        case LE: le_(a, b, y); break;
        case EQ: eq_(a, b, y); break;
        case NE: ne_(a, b, y); break;
        case NOT: not_(a, y); break;
        case AND: and_(a, b, y); break;
        case OR: or_(a, b, y); break;
        case WHERE: where_(a, b, c, y); break;
        case EXP: exp_(a, y); break;
        case LOG: log_(a, y); break;
        case SIN: sin_(a, y); break;
        case COS: cos_(a, y); break;
        case TAN: tan_(a, y); break;
        case ASIN: asin_(a, y); break;
        case ACOS: acos_(a, y); break;
        case ATAN: atan_(a, y); break;
        case ATAN2: atan2_(a, b, y); break;
        case SINH: sinh_(a, y); break;
        case COSH: cosh_(a, y); break;
        case TANH: tanh_(a, y); break;
        case POW: pow_(a, b, y); break;
        case COPY: memcpy(y, a, sizeof *y); break;
        }
    }
}

/* operands that are one and the same value (x*x became a square; x - x and the like remain) are left alone */
static void backward(const instruction *tape, int64_t length, strip *v)
{
    for (int64_t k = length - 1; k >= 0; k--) {
        instruction n = tape[k];
        if (!n.required) continue;
        strip *y = v + k, *a = v + n.a, *b = v + n.b, *c = v + n.c;
        int apart = n.a != n.b;
        switch (n.op) {
        case ADD: if (apart) back_add(y, a, b); break;
        case SUB: if (apart) back_sub(y, a, b); break;
        case MUL: if (apart) back_mul(y, a, b); break;
        case DIV: if (apart) back_div(y, a, b); break;
        case NEG: back_neg(y, a); break;
        case TWICE: back_twice(y, a); break;
        case SQ: back_sq(y, a); break;
        case INV: back_inv(y, a); break;
        case SQRT: back_sqrt(y, a); break;
        case FABS: back_fabs(y, a); break;
        case SIGN: back_sign(y, a); break;
        case MIN: if (apart) back_min(y, a, b); break;
        case MAX: if (apart) back_max(y, a, b); break;
        case LT: case LE: if (apart) back_le(y, a, b); break;
        case WHERE: if (apart && n.a != n.c && n.b != n.c) back_where(y, a, b, c); break;
        case EXP: back_exp(y, a); break;
        case LOG: back_log(y, a); break;
        case ASIN: back_asin(y, a); break;
        case ACOS: back_acos(y, a); break;
        case ATAN: back_atan(y, a); break;
        case SINH: back_sinh(y, a); break;
        case COSH: back_cosh(y, a); break;
        case TANH: back_tanh(y, a); break;
        case POW: if (apart) back_pow(y, a, b); break;
        case COPY: intersect_(a, y); break;
        default: break;
        }
    }
}

/* Rows of boxes in, rows of boxes out; row r of a matrix of `stride` columns starts at r*stride. A strip that is not full
   repeats its last box. */
static void gather(const instruction *tape, int64_t length, const double *lo, const double *hi, int64_t stride,
                   int64_t first, int64_t count, strip *v)
{
    for (int64_t k = 0; k < length; k++) {
        if (tape[k].op != INPUT) continue;
        const double *l = lo + tape[k].a * stride + first, *h = hi + tape[k].a * stride + first;
        for (int64_t i = 0; i < W; i++) {
            int64_t j = i < count ? i : count - 1;
            v[k].lo[i] = l[j];
            v[k].hi[i] = h[j];
        }
    }
}

void dynident_interval_evaluate(const instruction *tape, int64_t length, const double *constants, const int32_t *roots,
                                int64_t outputs, const double *lo, const double *hi, int64_t stride, int64_t boxes,
                                double *out_lo, double *out_hi, strip *v)
{
    set_constants(tape, length, constants, v);
    for (int64_t first = 0; first < boxes; first += W) {
        int64_t count = boxes - first < W ? boxes - first : W;
        gather(tape, length, lo, hi, stride, first, count, v);
        forward(tape, length, v);
        for (int64_t r = 0; r < outputs; r++) {
            memcpy(out_lo + r * boxes + first, v[roots[r]].lo, count * sizeof(double));
            memcpy(out_hi + r * boxes + first, v[roots[r]].hi, count * sizeof(double));
        }
    }
}

/* HC4: narrow the inputs in place to what the wanted outputs leave; an input that nothing fits becomes NaN */
void dynident_interval_contract(const instruction *tape, int64_t length, const double *constants, const int32_t *roots,
                                int64_t outputs, double *lo, double *hi, int64_t stride, int64_t boxes,
                                const double *want_lo, const double *want_hi, int64_t passes, strip *v)
{
    for (int64_t first = 0; first < boxes; first += W) {
        int64_t count = boxes - first < W ? boxes - first : W;
        gather(tape, length, lo, hi, stride, first, count, v);
        for (int64_t pass = 0; pass < passes; pass++) {
            set_constants(tape, length, constants, v); /* going backward may have emptied one */
            forward(tape, length, v);
            int lost[W] = {0};
            for (int64_t r = 0; r < outputs; r++) {
                strip want, *y = v + roots[r];
                for (int64_t i = 0; i < W; i++) {
                    int64_t j = first + (i < count ? i : count - 1);
                    want.lo[i] = want_lo[r * boxes + j];
                    want.hi[i] = want_hi[r * boxes + j];
                }
                intersect_(y, &want);
                EACH { lost[i] |= !(y->lo[i] <= y->hi[i]); }
            }
            backward(tape, length, v);
            for (int64_t k = 0; k < length; k++)
                if (tape[k].op == INPUT) EACH { lost[i] |= !(v[k].lo[i] <= v[k].hi[i]); }
            for (int64_t k = 0; k < length; k++)
                if (tape[k].op == INPUT) EACH { if (lost[i]) v[k].lo[i] = v[k].hi[i] = NAN; }
        }
        for (int64_t k = 0; k < length; k++) {
            if (tape[k].op != INPUT) continue;
            memcpy(lo + tape[k].a * stride + first, v[k].lo, count * sizeof(double));
            memcpy(hi + tape[k].a * stride + first, v[k].hi, count * sizeof(double));
        }
    }
}
