/* The fused step: boxes of one mode from one sample to the next, strip by strip: Picard enclosure, end by monotone
   corners and the mean value form, measurement, backward pass. It is what flows/ does array by array (hybrid_step.py with
   compiled=False), for boxes that no transition can concern and whose rate is smooth; the others are named and left alone. */

typedef struct {
    const instruction *tape;
    const double *constants;
    const int32_t *roots;
    int64_t length, outputs;
} program;

/* in the order of StepPrograms in fused_step.py; the polynomials, one per state, come last */
enum { STAYS_AT_START, PICARD, STAYS_DURING, GUARD_RATES, SMOOTH, JACOBIAN, REMAINDER, NATURAL, WITH_REMAINDER, STAYS_AT_END,
       OUTPUT, POLYNOMIALS };

typedef struct {
    const program *programs;
    int64_t states, parameters, rows, enclosure; /* rows of a box; where the a priori enclosure of the states begins */
    int64_t at_rest, guards_checked, measured, backward; /* guards_checked: none is positive at the start */
    const double *step_lo, *step_hi; /* what the step and the next sample give to rows behind the unknowns */
    const double *next_lo, *next_hi;
    const double *seen_lo, *seen_hi; /* per output */
    strip *rows_, *other, *ends, *slopes, *want, *values; /* room */
} fused_step;

enum { ALIVE, EMPTY, UNDECIDED };
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
static void hc4_contract(const program *p, strip *rows, const strip *want, int passes, strip *v, int *lost)
{
    for (int pass = 0; pass < passes; pass++) {
        run(p, rows, v);
        for (int64_t r = 0; r < p->outputs; r++) {
            strip *y = v + p->roots[r];
            intersect_(y, want + r);
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
static void mark_nonsmooth(const program *p, const strip *rows, strip *v, int *marked)
{
    if (!p->length) return;
    run(p, rows, v);
    for (int64_t r = 0; r < p->outputs; r++) EACH { marked[i] |= !(v[p->roots[r]].lo[i] > 0); }
}

/* the same during the step: a guard that is not positive at the start and nowhere rises is not met */
static void mark_guard_met(const fused_step *s, int *marked)
{
    const program *p = s->programs + STAYS_DURING, *rates = s->programs + GUARD_RATES;
    int any[W] = {0}, some = 0;
    mark_negative(p, s->rows_, s->values, any);
    EACH { some |= any[i]; }
    if (!some) return;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < p->outputs; r++) s->want[r] = s->values[p->roots[r]];
    run(rates, s->rows_, s->values);
    for (int64_t r = 0; r < p->outputs; r++)
        EACH { marked[i] |= !(s->want[r].lo[i] >= 0) && !(s->values[rates->roots[r]].hi[i] <= 0); }
}

/* a box that x + [0, h] f maps into itself (mode_flow.find_invariant_box), in the rows of the enclosure */
static void picard_enclosure(const fused_step *s, int *marked)
{
    const program *p = s->programs + PICARD;
    strip *enclosure = s->rows_ + s->enclosure;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) {
        strip *y = s->values + p->roots[r];
        EACH { enclosure[r].lo[i] = smaller(enclosure[r].lo[i], y->lo[i]); enclosure[r].hi[i] = larger(enclosure[r].hi[i], y->hi[i]); }
    }
    int inside[W];
    for (int attempt = 0; attempt < PICARD_TRIES; attempt++) {
        run(p, s->rows_, s->values);
        int all = 1;
        EACH { inside[i] = 1; }
        for (int64_t r = 0; r < s->states; r++) {
            strip *y = s->values + p->roots[r];
            EACH { inside[i] &= y->lo[i] >= enclosure[r].lo[i] && y->hi[i] <= enclosure[r].hi[i]; }
        }
        EACH { all &= inside[i]; }
        for (int64_t r = 0; r < s->states; r++) {
            strip *y = s->values + p->roots[r];
            if (all) { enclosure[r] = *y; continue; }
            EACH {
                double lo = smaller(enclosure[r].lo[i], y->lo[i]), hi = larger(enclosure[r].hi[i], y->hi[i]);
                double grow = 0.1 * (hi - lo) + 1e-12 * (fabs(lo) + fabs(hi)) + 1e-300;
                enclosure[r].lo[i] = inside[i] ? enclosure[r].lo[i] : lo - grow;
                enclosure[r].hi[i] = inside[i] ? enclosure[r].hi[i] : hi + grow;
            }
        }
        if (all) return;
    }
    EACH { marked[i] |= !inside[i]; }
}

/* the row of a corner: the end at which the state is least (or largest), the middle where the derivative has no sign */
static void monotone_corner(const strip *row, const strip *slope, int largest, strip *point)
{
    EACH {
        int rises = slope->lo[i] >= 0, falls = slope->hi[i] <= 0;
        double middle = 0.5 * row->lo[i] + 0.5 * row->hi[i];
        double x = rises == largest ? row->hi[i] : row->lo[i];
        point->lo[i] = point->hi[i] = rises || falls ? x : middle;
    }
}

/* mean-value terms of the unknowns whose derivative may have either sign, added to an end */
static int mean_value_form(const fused_step *s, int64_t state, strip *end)
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

/* states at the end of the step: polynomial by corners, remainder, never outside of the enclosure */
static void enclose_end(const fused_step *s)
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
                monotone_corner(s->rows_ + j, s->slopes + j * s->states + state, largest, s->other + j);
            run(p, s->other, s->values);
            if (largest) memcpy(s->ends[state].hi, s->values[p->roots[0]].hi, sizeof s->ends->hi);
            else memcpy(s->ends[state].lo, s->values[p->roots[0]].lo, sizeof s->ends->lo);
        }
        open |= mean_value_form(s, state, s->ends + state);
    }
    p = s->programs + REMAINDER;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) {
        strip sum;
        add_(s->ends + r, s->values + p->roots[r], &sum);
        s->ends[r] = sum;
        intersect_(s->ends + r, s->rows_ + s->enclosure + r);
    }
    if (!open) return;
    p = s->programs + NATURAL;
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < s->states; r++) intersect_(s->ends + r, s->values + p->roots[r]);
}

/* what the transitions at the end, the measurement and the way back leave of the ends (and of the parameters) */
static void update_with_measurement(const fused_step *s, int *lost)
{
    int64_t n = s->states, k = n + s->parameters;
    strip *want = s->want;
    const program *p = s->programs + STAYS_AT_END;
    memcpy(s->other, s->rows_, s->rows * sizeof(strip));
    if (!s->at_rest) memcpy(s->other, s->ends, n * sizeof(strip));
    if (p->length) {
        nonnegative(want, p->outputs);
        hc4_contract(p, s->other, want, CONDITION_PASSES, s->values, lost);
    }
    if (!s->measured) return;
    p = s->programs + OUTPUT;
    for (int64_t r = k; r < s->rows; r++) EACH { s->other[r].lo[i] = s->next_lo[r]; s->other[r].hi[i] = s->next_hi[r]; }
    for (int64_t r = 0; r < p->outputs; r++) EACH { want[r].lo[i] = s->seen_lo[r]; want[r].hi[i] = s->seen_hi[r]; }
    hc4_contract(p, s->other, want, 1, s->values, lost);
    if (!s->backward || s->at_rest) return;
    p = s->programs + REMAINDER; /* each state's own, met at a moment of its own */
    memcpy(s->rows_ + n, s->other + n, s->parameters * sizeof(strip));
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < n; r++) s->rows_[s->enclosure + r] = s->values[p->roots[r]];
    p = s->programs + WITH_REMAINDER;
    hc4_contract(p, s->rows_, s->other, 1, s->values, lost);
    run(p, s->rows_, s->values);
    for (int64_t r = 0; r < n; r++) {
        intersect_(s->other + r, s->values + p->roots[r]);
        EACH { lost[i] |= !(s->other[r].lo[i] <= s->other[r].hi[i]); }
    }
    memcpy(s->other + n, s->rows_ + n, s->parameters * sizeof(strip));
}

/* boxes are columns of lo and hi, and become those at the next sample; status says which are alive, empty, or left undecided */
void dynident_interval_fused_step(const fused_step *s, double *lo, double *hi, int64_t boxes, int8_t *status)
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
        memcpy(s->rows_ + s->enclosure, s->rows_, n * sizeof(strip));
        if (!s->guards_checked) mark_negative(s->programs + STAYS_AT_START, s->rows_, s->values, marked);
        if (!s->at_rest) picard_enclosure(s, marked);
        if (!s->at_rest) mark_nonsmooth(s->programs + SMOOTH, s->rows_, s->values, marked);
        mark_guard_met(s, marked);
        if (!s->at_rest) enclose_end(s);
        update_with_measurement(s, lost);
        for (int64_t i = 0; i < count; i++) {
            status[first + i] = marked[i] ? UNDECIDED : lost[i] ? EMPTY : ALIVE;
            if (status[first + i] != ALIVE) continue;
            for (int64_t r = 0; r < k; r++) {
                lo[r * boxes + first + i] = s->other[r].lo[i];
                hi[r * boxes + first + i] = s->other[r].hi[i];
            }
        }
    }
}
