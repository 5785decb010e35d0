/* The stride: boxes of one mode from one sample to the next, strip by strip: bounding box, end by corners, measurement,
   backward pass. It is what integrators/verified does array by array, for boxes that no transition can concern and whose
   rate is smooth; the others are named and left alone. */

typedef struct {
    const instruction *tape;
    const double *constants;
    const int32_t *roots;
    int64_t length, outputs;
} program;

/* in the order of Programs in stride.py; the polynomials, one per state, come last */
enum { GOES_ON_AT_START, PICARD, GOES_ON_MEANWHILE, RISES, SMOOTH, JACOBIAN, REMAINDER, WHOLE, CLOSED, GOES_ON_AT_END,
       OUTPUT, POLYNOMIALS };

typedef struct {
    const program *programs;
    int64_t states, parameters, rows, passed; /* rows of a box; where the passed states begin */
    int64_t still, begun, measured, backward; /* begun: that the mode goes on at the start is known */
    const double *step_lo, *step_hi; /* what the step and the next sample give to rows behind the unknowns */
    const double *next_lo, *next_hi;
    const double *seen_lo, *seen_hi; /* per output */
    strip *rows_, *other, *ends, *slopes, *want, *values; /* room */
} stride_;

enum { ALIVE, DEAD, OPEN };
enum { PICARD_TRIES = 12, CONDITION_PASSES = 2 };

static void take_inputs(const program *p, const strip *rows, strip *v)
{
    for (int64_t k = 0; k < p->length; k++)
        if (p->tape[k].op == INPUT) v[k] = rows[p->tape[k].a];
}

static void run(const program *p, const strip *rows, strip *v)
{
    set_constants(p->tape, p->length, p->constants, v);
    take_inputs(p, rows, v);
    forward(p->tape, p->length, v);
}

/* HC4 on the rows of one strip; lanes that nothing fits are marked */
static void squeeze(const program *p, strip *rows, const strip *want, int passes, strip *v, int *lost)
{
    for (int pass = 0; pass < passes; pass++) {
        run(p, rows, v);
        for (int64_t r = 0; r < p->outputs; r++) {
            strip *y = v + p->roots[r];
            meet_(y, want + r);
            EACH { lost[i] |= !(y->lo[i] <= y->hi[i]); }
        }
        backward(p->tape, p->length, v);
        for (int64_t k = 0; k < p->length; k++) {
            if (p->tape[k].op != INPUT) continue;
            EACH { lost[i] |= !(v[k].lo[i] <= v[k].hi[i]); }
            rows[p->tape[k].a] = v[k];
        }
    }
}

static void nonnegative(strip *want, int64_t count)
{
    for (int64_t r = 0; r < count; r++) EACH { want[r].lo[i] = 0; want[r].hi[i] = INFINITY; }
}

/* lanes in which what must be at least zero, for the mode to go on, may be less */
static void mark_negative(const program *p, const strip *rows, strip *v, int *marked)
{
    if (!p->length) return;
    run(p, rows, v);
    for (int64_t r = 0; r < p->outputs; r++) EACH { marked[i] |= !(v[p->roots[r]].lo[i] >= 0); }
}

/* lanes in which the rate may not be smooth during the step */
static void mark_rough(const program *p, const strip *rows, strip *v, int *marked)
{
    if (!p->length) return;
    run(p, rows, v);
    for (int64_t r = 0; r < p->outputs; r++) EACH { marked[i] |= !(v[p->roots[r]].lo[i] > 0); }
}

/* the same during the step: a guard that is not positive at the start and nowhere rises is not met */
static void mark_met(const stride_ *s, int *marked)
{
    const program *p = s->programs + GOES_ON_MEANWHILE, *rises = s->programs + RISES;
    int any[W] = {0}, some = 0;
    mark_negative(p, s->rows_, s->values, any);
    EACH { some |= any[i]; }
    if (!some) return;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < p->outputs; r++) s->want[r] = s->values[p->roots[r]];
    run(rises, s->rows_, s->values);
    for (int64_t r = 0; r < p->outputs; r++)
        EACH { marked[i] |= !(s->want[r].lo[i] >= 0) && !(s->values[rises->roots[r]].hi[i] <= 0); }
}

/* a box that x + [0, h] f maps into itself (flow.mapped_into_itself), in the rows of the passed states */
static void bound_passed(const stride_ *s, int *marked)
{
    const program *p = s->programs + PICARD;
    strip *passed = s->rows_ + s->passed;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) {
        strip *y = s->values + p->roots[r];
        EACH { passed[r].lo[i] = smaller(passed[r].lo[i], y->lo[i]); passed[r].hi[i] = larger(passed[r].hi[i], y->hi[i]); }
    }
    int inside[W];
    for (int attempt = 0; attempt < PICARD_TRIES; attempt++) {
        run(p, s->rows_, s->values);
        int all = 1;
        EACH { inside[i] = 1; }
        for (int64_t r = 0; r < s->states; r++) {
            strip *y = s->values + p->roots[r];
            EACH { inside[i] &= y->lo[i] >= passed[r].lo[i] && y->hi[i] <= passed[r].hi[i]; }
        }
        EACH { all &= inside[i]; }
        for (int64_t r = 0; r < s->states; r++) {
            strip *y = s->values + p->roots[r];
            if (all) { passed[r] = *y; continue; }
            EACH {
                double lo = smaller(passed[r].lo[i], y->lo[i]), hi = larger(passed[r].hi[i], y->hi[i]);
                double grow = 0.1 * (hi - lo) + 1e-12 * (fabs(lo) + fabs(hi)) + 1e-300;
                passed[r].lo[i] = inside[i] ? passed[r].lo[i] : lo - grow;
                passed[r].hi[i] = inside[i] ? passed[r].hi[i] : hi + grow;
            }
        }
        if (all) return;
    }
    EACH { marked[i] |= !inside[i]; }
}

/* the row of a corner: the end at which the state is least (or largest), the middle where the derivative has no sign */
static void corner(const strip *row, const strip *slope, int largest, strip *point)
{
    EACH {
        int rises = slope->lo[i] >= 0, falls = slope->hi[i] <= 0;
        double middle = 0.5 * row->lo[i] + 0.5 * row->hi[i];
        double x = rises == largest ? row->hi[i] : row->lo[i];
        point->lo[i] = point->hi[i] = rises || falls ? x : middle;
    }
}

/* mean-value terms of the unknowns whose derivative may have either sign, added to an end */
static int spread(const stride_ *s, int64_t state, strip *end)
{
    int open = 0;
    for (int64_t j = 0; j < s->states + s->parameters; j++) {
        const strip *slope = s->slopes + j * s->states + state, *row = s->rows_ + j;
        strip moved, term, sum;
        int any = 0;
        EACH { any |= !(slope->lo[i] >= 0 || slope->hi[i] <= 0); }
        if (!any) continue;
        open = 1;
        EACH {
            double middle = 0.5 * row->lo[i] + 0.5 * row->hi[i];
            moved.lo[i] = down_sum(row->lo[i] - middle);
            moved.hi[i] = up_sum(row->hi[i] - middle);
        }
        mul_(slope, &moved, &term);
        EACH { if (slope->lo[i] >= 0 || slope->hi[i] <= 0) term.lo[i] = term.hi[i] = 0; }
        add_(end, &term, &sum);
        *end = sum;
    }
    return open;
}

/* states at the end of the step: polynomial by corners, remainder, never outside of the passed states */
static void reach_end(const stride_ *s)
{
    int64_t unknowns = s->states + s->parameters;
    const program *p = s->programs + JACOBIAN;
    run(p, s->rows_, s->values);
    for (int64_t k = 0; k < unknowns * s->states; k++) {
        s->slopes[k] = s->values[p->roots[k]];
        EACH { /* no derivative: anything */
            int none = s->slopes[k].lo[i] != s->slopes[k].lo[i];
            s->slopes[k].lo[i] = none ? -INFINITY : s->slopes[k].lo[i];
            s->slopes[k].hi[i] = none ? INFINITY : s->slopes[k].hi[i];
        }
    }
    int open = 0;
    for (int64_t state = 0; state < s->states; state++) {
        p = s->programs + POLYNOMIALS + state;
        memcpy(s->other, s->rows_, s->rows * sizeof(strip));
        for (int largest = 0; largest < 2; largest++) {
            for (int64_t j = 0; j < unknowns; j++)
                corner(s->rows_ + j, s->slopes + j * s->states + state, largest, s->other + j);
            run(p, s->other, s->values);
            if (largest) memcpy(s->ends[state].hi, s->values[p->roots[0]].hi, sizeof s->ends->hi);
            else memcpy(s->ends[state].lo, s->values[p->roots[0]].lo, sizeof s->ends->lo);
        }
        open |= spread(s, state, s->ends + state);
    }
    p = s->programs + REMAINDER;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) {
        strip sum;
        add_(s->ends + r, s->values + p->roots[r], &sum);
        s->ends[r] = sum;
        meet_(s->ends + r, s->rows_ + s->passed + r);
    }
    if (!open) return;
    p = s->programs + WHOLE;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) meet_(s->ends + r, s->values + p->roots[r]);
}

/* what the transitions at the end, the measurement and the way back leave of the ends (and of the parameters) */
static void narrow(const stride_ *s, int *lost)
{
    int64_t n = s->states, k = n + s->parameters;
    strip *want = s->want;
    const program *p = s->programs + GOES_ON_AT_END;
    memcpy(s->other, s->rows_, s->rows * sizeof(strip));
    if (!s->still) memcpy(s->other, s->ends, n * sizeof(strip));
    if (p->length) {
        nonnegative(want, p->outputs);
        squeeze(p, s->other, want, CONDITION_PASSES, s->values, lost);
    }
    if (!s->measured) return;
    p = s->programs + OUTPUT;
    for (int64_t r = k; r < s->rows; r++) EACH { s->other[r].lo[i] = s->next_lo[r]; s->other[r].hi[i] = s->next_hi[r]; }
    for (int64_t r = 0; r < p->outputs; r++) EACH { want[r].lo[i] = s->seen_lo[r]; want[r].hi[i] = s->seen_hi[r]; }
    squeeze(p, s->other, want, 1, s->values, lost);
    if (!s->backward || s->still) return;
    p = s->programs + REMAINDER; /* each state's own, met at a moment of its own */
    memcpy(s->rows_ + n, s->other + n, s->parameters * sizeof(strip));
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < n; r++) s->rows_[s->passed + r] = s->values[p->roots[r]];
    p = s->programs + CLOSED;
    squeeze(p, s->rows_, s->other, 1, s->values, lost);
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < n; r++) {
        meet_(s->other + r, s->values + p->roots[r]);
        EACH { lost[i] |= !(s->other[r].lo[i] <= s->other[r].hi[i]); }
    }
    memcpy(s->other + n, s->rows_ + n, s->parameters * sizeof(strip));
}

/* boxes are columns of lo and hi, and become those at the next sample; fate says which are alive, dead, or left alone */
void dynident_interval_stride(const stride_ *s, double *lo, double *hi, int64_t boxes, int8_t *fate)
{
    int64_t n = s->states, k = n + s->parameters;
    for (int64_t first = 0; first < boxes; first += W) {
        int64_t count = boxes - first < W ? boxes - first : W;
        int marked[W] = {0}, lost[W] = {0};
        for (int64_t r = 0; r < k; r++)
            for (int64_t i = 0; i < W; i++) {
                int64_t j = r * boxes + first + (i < count ? i : count - 1);
                s->rows_[r].lo[i] = lo[j];
                s->rows_[r].hi[i] = hi[j];
            }
        for (int64_t r = k; r < s->rows; r++) EACH { s->rows_[r].lo[i] = s->step_lo[r]; s->rows_[r].hi[i] = s->step_hi[r]; }
        for (int64_t r = 0; r < k; r++) EACH { marked[i] |= !(s->rows_[r].hi[i] - s->rows_[r].lo[i] <= TOP); }
        memcpy(s->rows_ + s->passed, s->rows_, n * sizeof(strip));
        if (!s->begun) mark_negative(s->programs + GOES_ON_AT_START, s->rows_, s->values, marked);
        if (!s->still) bound_passed(s, marked);
        if (!s->still) mark_rough(s->programs + SMOOTH, s->rows_, s->values, marked);
        mark_met(s, marked);
        if (!s->still) reach_end(s);
        narrow(s, lost);
        for (int64_t i = 0; i < count; i++) {
            fate[first + i] = marked[i] ? OPEN : lost[i] ? DEAD : ALIVE;
            if (fate[first + i] != ALIVE) continue;
            for (int64_t r = 0; r < k; r++) {
                lo[r * boxes + first + i] = s->other[r].lo[i];
                hi[r * boxes + first + i] = s->other[r].hi[i];
            }
        }
    }
}
