/* Radau 5: Radau IIA of order 5 with steps chosen to meet a tolerance, and exact sensitivities of the steps that were taken.

   Stands behind implicit_stages.c for the scheme radau. Hairer and Wanner, Solving Ordinary Differential Equations II, IV.8:
   error estimate of order 3 filtered by (gamma/h - J)^-1, step lengths by Gustafsson's controller. Other than there, stages are
   solved down to rounding: their derivatives assume an exact root, and with a loose one miss differences of frozen steps by
   some percent on van der Pol's equation. Newton's matrix has the Jacobian of each stage at its predicted place, so that a few
   corrections with the same factors do; where they do not, it is made anew where the stages are now. */

#define SAFETY 0.9
#define LARGEST_GROWTH 8.0
#define SMALLEST_GROWTH 0.2
#define GAMMA 3.6378342527444957 /* 3 + 3^(2/3) - 3^(1/3): the real eigenvalue of the inverse of the tableau */
#define SMALL_STATE 1e-2 /* of the largest value so far, beside the present one: what a state's error is measured against */
#define ROUNDING 1e-14 /* of the largest state: errors below are noise */
#define MOST_STEPS 5000 /* in a segment, and as many more as its intervals add */
#define STEPS_PER_INTERVAL 20 /* what an interval adds: rates a hundred times too fast must not cost a hundred simulations */
#define CORRECTIONS 8 /* with the same factors */
#define FACTORS 3 /* in one step, before it is shortened */
#define EXACT 1e-7 /* of the tolerance: corrections that small end Newton's method */
#define STALLED 1e-3 /* of the tolerance: corrections that small and no longer shrinking are rounding */
#define SHORTEST 1e-13 /* of the interval */

static const double POINT[3] = {0.15505102572168219, 0.64494897427831781, 1.0};
static const double ERROR_WEIGHT[3] = {-10.048809399827415, 1.3821427331607488, -0.33333333333333333};

#define FILTER_PLACE(r) (FULL ? (r) : ORDER[r])
#define FILTER_SIZE (NX * BAND_WIDTH(NX, KL, KU))
#define RADAU_WORK (STEP_WORK + FILTER_SIZE)

typedef struct {
  Newton newton;
  double *filter;
  int pivot[NX], is_sparse;
  double largest[NX]; /* of each state so far in the segment */
  double h, h_before, error_before; /* proposed; of the last accepted step */
  long spare; /* steps that may still be taken in the segment */
} Radau;

INLINE void radau_memory(Radau *radau, double *work) {
  newton_memory(&radau->newton, work);
  radau->filter = work + STEP_WORK;
}

INLINE void radau_begin(Radau *radau) {
  radau->newton.length = 0;
  radau->h = radau->h_before = 0;
  radau->spare = MOST_STEPS;
  memset(radau->largest, 0, sizeof radau->largest);
}

/* What an error of each state is divided by: its size at the begin and at `count` places of the step. */
INLINE void error_scale(const Radau *radau, const double *x, const double *z, int count, double *scale) {
  double all = 0;
  int i, s;
  for (i = 0; i < NX; i++) {
    double size = fabs(x[i]);
    for (s = 0; s < count; s++) size = fmax(size, fabs(z[s * NX + i]));
    all = fmax(all, fmax(size, radau->largest[i]));
    scale[i] = RELATIVE_TOLERANCE * (size + SMALL_STATE * radau->largest[i]);
  }
  for (i = 0; i < NX; i++) scale[i] += ROUNDING * all + 1e-300;
}

INLINE double scaled_norm(const double *v, const double *scale, int n) {
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) { const double q = v[i] / scale[i % NX]; sum += q * q; }
  return sqrt(sum / (n > 0 ? n : 1));
}

/* Stages where the polynomial of the step before leads, or at the state where there is none. */
INLINE void predicted(const Radau *radau, double h, const double *x, double *z) {
  const Newton *n = &radau->newton;
  int i, j, s;
  for (s = 0; s < 3; s++) {
    double weight[3] = {0, 0, 0};
    if (n->length > 0) {
      const double at = 1 + POINT[s] * h / n->length;
      for (j = 0; j < 3; j++) {
        weight[j] = at / POINT[j];
        for (i = 0; i < 3; i++) if (i != j) weight[j] *= (at - POINT[i]) / (POINT[j] - POINT[i]);
      }
      weight[2] -= 1; /* from the end of that step on */
    }
    for (i = 0; i < NX; i++)
      z[s * NX + i] = x[i] + (n->length > 0 ? weight[0] * n->move[i] + weight[1] * n->move[NX + i] + weight[2] * n->move[2 * NX + i] : 0);
  }
}

/* The stages down to rounding; 0 where they do not settle. */
static __attribute__((noinline)) int settled(double t, double h, const double *x, double *z, const double *u0, const double *u1, Parameters p,
                                             Radau *radau) {
  Newton *newton = &radau->newton;
  double k[RATES * NX], at[NX], u[SIZE(NU)], G[NZ], room[NZ], scale[NX], before = 0;
  int i, c, f;
  for (f = 0; f < FACTORS; f++) {
    for (c = 0; c < CORRECTIONS; c++) {
      double size, ratio;
      if (c == 0) {
#define DO(e, c, fixed) rate_x(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX, newton->J + (e) * NJS);
        EACH_RATE(DO)
#undef DO
        if (!newton_factor(h, newton)) return 0;
      } else {
#define DO(e, c, fixed) rate(t + (c) * h, stage_state_##e(h, 1, x, z, k, at), inputs_at(c, u0, u1, u), p, k + (e) * NX);
        EACH_RATE(DO)
#undef DO
      }
      stage_equations(h, 1, x, z, k, G);
      if (!finite_all(G, NZ)) return 0;
      newton_solve(newton, G, room, 1);
      for (i = 0; i < NZ; i++) z[i] -= G[i];
      error_scale(radau, x, z, 3, scale);
      size = scaled_norm(G, scale, NZ);
      if (!isfinite(size)) return 0;
      if (size <= EXACT) return 1;
      if (c > 0) {
        ratio = size / before;
        if (size <= STALLED && ratio > 0.5) return 1;
        if (ratio < 1 && size * ratio / (1 - ratio) <= EXACT) return 1;
        if (ratio > 0.9) break; /* other factors, from here */
      }
      before = size;
    }
  }
  return 0;
}

/* Factors of the filter gamma/h - J, with the Jacobian of the first stage; 0 if singular. */
INLINE int filter_factor(double h, Radau *radau) {
  const double *J = radau->newton.J;
  double *A = radau->filter;
  int i, q;
#if SPARSE
  double B[PLACES];
  memset(B, 0, sizeof B);
  for (q = 0; q < NJ; q++) B[ENTRY_PLACE[q]] -= J[q];
  for (i = 0; i < NX; i++) B[PIVOT_PLACE[i]] += GAMMA / h;
  radau->is_sparse = factor_numbers(B, A);
  if (radau->is_sparse) return 1;
#endif
  memset(A, 0, FILTER_SIZE * sizeof(double));
  for (q = 0; q < NJ; q++) BAND(A, FILTER_PLACE(RATE_ROW[q]), NX, KL, KU)[FILTER_PLACE(RATE_COLUMN[q])] -= J[q];
  for (i = 0; i < NX; i++) BAND(A, FILTER_PLACE(i), NX, KL, KU)[FILTER_PLACE(i)] += GAMMA / h;
  return band_factor(NX, KL, KU, A, radau->pivot);
}

/* e <- filter^-1 e, where the filter is factored. */
INLINE void filtered(const Radau *radau, double *e) {
  double moved[NX];
  int i;
#if SPARSE
  if (radau->is_sparse) { solve_numbers(radau->filter, e); return; }
#endif
  for (i = 0; i < NX; i++) moved[FILTER_PLACE(i)] = e[i];
  band_solve(NX, KL, KU, radau->filter, radau->pivot, moved, 1);
  for (i = 0; i < NX; i++) e[i] = moved[FILTER_PLACE(i)];
}

/* The error of a step, relative to the tolerance. */
INLINE double step_error(double t, double h, const double *x, const double *z, const double *u0, Parameters p, const double *f,
                         const double *scale, int again, Radau *radau) {
  double sum[NX], moved[NX], k[NX], size;
  int i, q;
  if (!filter_factor(h, radau)) return INFINITY;
  for (i = 0; i < NX; i++) {
    sum[i] = 0;
    for (q = 0; q < 3; q++) sum[i] += ERROR_WEIGHT[q] * (z[q * NX + i] - x[i]) / h;
    moved[i] = f[i] + sum[i];
  }
  filtered(radau, moved);
  size = scaled_norm(moved, scale, NX);
  if (!(size >= 1) || !again) return size;
  for (i = 0; i < NX; i++) moved[i] += x[i]; /* of the first step and after a refusal: the filter again, which a stiff part asks for */
  rate(t, moved, u0, p, k);
  for (i = 0; i < NX; i++) moved[i] = k[i] + sum[i];
  filtered(radau, moved);
  return scaled_norm(moved, scale, NX);
}

/* A first step: one in which a state moves by a hundredth of itself. */
INLINE double first_step(const double *x, const double *f, const double *scale, double longest) {
  const double size = scaled_norm(x, scale, NX), speed = scaled_norm(f, scale, NX);
  return speed > 0 && size > 0 ? fmin(0.01 * size / speed, longest) : longest;
}

/* One attempt at a step, from `done` on in an interval. */
typedef struct {
  double z[NZ], u0[SIZE(NU)], u1[SIZE(NU)];
  double h, error;
  int whole, refused; /* to the end of the interval; an attempt before this one was refused */
} Attempt;

enum { LOST_WAY = 0, REFUSED = 1, ACCEPTED = 2 };

/* Try a step, with inputs that move linearly over the interval from u_begin to u_end; a refusal proposes a shorter one. */
INLINE int radau_attempt(double t, double length, double done, const double *x, const double *u_begin, const double *u_end, Parameters p,
                         Attempt *tried, Radau *radau) {
  Newton *newton = &radau->newton;
  double f[NX], scale[NX];
  const double left = length - done;
  int a;
  for (a = 0; a < NU; a++) tried->u0[a] = u_begin[a] + done / length * (u_end[a] - u_begin[a]);
  rate(t + done, x, tried->u0, p, f);
  if (!finite_all(f, NX)) return LOST_WAY;
  if (!(radau->h > 0)) {
    error_scale(radau, x, x, 1, scale);
    radau->h = first_step(x, f, scale, length);
  }
  tried->whole = radau->h >= left * (1 - 1e-10);
  tried->h = tried->whole ? left : radau->h > 0.5 * left ? 0.5 * left : radau->h;
  if (tried->h < SHORTEST * length) return LOST_WAY;
  for (a = 0; a < NU; a++) tried->u1[a] = u_begin[a] + (tried->whole ? 1 : (done + tried->h) / length) * (u_end[a] - u_begin[a]);
  predicted(radau, tried->h, x, tried->z);
  if (!settled(t + done, tried->h, x, tried->z, tried->u0, tried->u1, p, radau)) {
    if (newton->length > 0) { newton->length = 0; return REFUSED; } /* once more from the state itself */
    radau->h = 0.25 * tried->h;
    tried->refused = 1;
    return REFUSED;
  }
  error_scale(radau, x, tried->z + 2 * NX, 1, scale);
  tried->error = step_error(t + done, tried->h, x, tried->z, tried->u0, p, f, scale, tried->refused || radau->h_before == 0, radau);
  if (!isfinite(tried->error)) { radau->h = 0.25 * tried->h; tried->refused = 1; return REFUSED; }
  if (tried->error < 1) return ACCEPTED;
  radau->h = tried->h * fmax(SMALLEST_GROWTH, SAFETY * pow(fmax(tried->error, 1e-10), -0.25));
  tried->refused = 1;
  return REFUSED;
}

/* What an accepted step from x says about the next one. */
INLINE void radau_accept(Attempt *tried, const double *x, Radau *radau) {
  Newton *newton = &radau->newton;
  double growth = SAFETY * pow(fmax(tried->error, 1e-10), -0.25);
  int i;
  if (radau->h_before > 0)
    growth = fmin(growth, growth * tried->h / radau->h_before * pow(fmax(radau->error_before, 1e-2) / fmax(tried->error, 1e-10), 0.25));
  growth = fmin(tried->refused ? 1 : LARGEST_GROWTH, fmax(SMALLEST_GROWTH, growth));
  radau->h = tried->h < radau->h ? fmax(radau->h, tried->h * growth) : tried->h * growth; /* one cut short at a sample says less */
  radau->h_before = tried->h;
  radau->error_before = fmax(tried->error, 1e-2);
  tried->refused = 0;
  for (i = 0; i < NZ; i++) newton->move[i] = tried->z[i] - x[i % NX];
  newton->length = tried->h;
  for (i = 0; i < NX; i++) radau->largest[i] = fmax(radau->largest[i], fabs(tried->z[2 * NX + i]));
}

INLINE void radau_enter(const double *x, Radau *radau) {
  int i;
  for (i = 0; i < NX; i++) radau->largest[i] = fmax(radau->largest[i], fabs(x[i]));
  radau->spare += STEPS_PER_INTERVAL;
}

#if !MODAL
/* From t over `length` with inputs that move linearly from u_begin to u_end; 0 where the tolerance cannot be met. */
INLINE int radau_interval(double t, double length, double *x, const double *u_begin, const double *u_end, Parameters p, int sens,
                          double *S, int w, int m, Radau *radau) {
  Attempt tried;
  double done = 0;
  tried.refused = 0;
  for (radau_enter(x, radau); radau->spare > 0; radau->spare--) {
    const int found = radau_attempt(t, length, done, x, u_begin, u_end, p, &tried, radau);
    if (found == LOST_WAY) return 0;
    if (found == REFUSED) continue;
    radau_accept(&tried, x, radau);
#if DERIVATIVES
    if (sens) {
      double k[RATES * NX];
      rates_q(t + done, tried.h, x, tried.z, tried.u0, tried.u1, p, k, radau->newton.J);
      if (!newton_factor(tried.h, &radau->newton)) return 0;
      chain(tried.h, S, w, m, &radau->newton, 0, S);
    }
#endif
    memcpy(x, tried.z + 2 * NX, NX * sizeof(double));
    if (tried.whole) return 1;
    done += tried.h;
  }
  return 0;
}
#endif
