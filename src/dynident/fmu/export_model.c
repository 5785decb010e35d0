/* An exported model: memory, equations, one Runge-Kutta step. The text in front defines NX NU NY NP NV STEP TOKEN, the
   start values and
     dyn_rate     (t, x, u, p) -> dx
     dyn_output   (t, x, u, p) -> y
     dyn_forward  (t, x, u, p, direction of x, of u, of p) -> change of (dx, y)
   Values stand in one line: states, rates, inputs, outputs, parameters; time is the last. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define AT_DX NX
#define AT_U (2 * NX)
#define AT_Y (2 * NX + NU)
#define AT_P (2 * NX + NU + NY)
#define AT_T (2 * NX + NU + NY + NP)
#define SIZE(n) ((n) > 0 ? (n) : 1)

typedef struct {
  double v[AT_T + 1];
  int fresh; /* rates and outputs belong to the other values */
} Model;

static void model_reset(Model *m) {
  memcpy(m->v, START, sizeof m->v);
  m->fresh = 0;
}

static void model_rate(Model *m, double t, const double *x, double *dx) {
  const double *arg[4] = {&t, x, m->v + AT_U, m->v + AT_P};
  double *res[1] = {dx};
  dyn_rate(arg, res, 0, 0, 0);
}

static void model_refresh(Model *m) {
  if (!m->fresh) {
    const double *arg[4] = {m->v + AT_T, m->v, m->v + AT_U, m->v + AT_P};
    double *res[1] = {m->v + AT_Y};
    model_rate(m, m->v[AT_T], m->v, m->v + AT_DX);
    dyn_output(arg, res, 0, 0, 0);
    m->fresh = 1;
  }
}

static int model_set(Model *m, unsigned r, double value) {
  if (r > AT_T || (r >= AT_DX && r < AT_U) || (r >= AT_Y && r < AT_P)) return 0;
  m->v[r] = value;
  m->fresh = 0;
  return 1;
}

static int model_get(Model *m, unsigned r, double *value) {
  if (r > AT_T) return 0;
  model_refresh(m);
  *value = m->v[r];
  return 1;
}

/* from the current time by h, inputs held */
static int model_advance(Model *m, double h) {
  const double begin = m->v[AT_T];
  const long count = (long)ceil(h / STEP * (1 - 1e-9));
  const long n = count > 0 ? count : 1;
  const double s = h / (double)n;
  double k[4][SIZE(NX)], at[SIZE(NX)];
  long i;
  int a;
  for (i = 0; NX > 0 && i < n; i++) {
    const double t = begin + (double)i * s;
    model_rate(m, t, m->v, k[0]);
    for (a = 0; a < NX; a++) at[a] = m->v[a] + 0.5 * s * k[0][a];
    model_rate(m, t + 0.5 * s, at, k[1]);
    for (a = 0; a < NX; a++) at[a] = m->v[a] + 0.5 * s * k[1][a];
    model_rate(m, t + 0.5 * s, at, k[2]);
    for (a = 0; a < NX; a++) at[a] = m->v[a] + s * k[2][a];
    model_rate(m, t + s, at, k[3]);
    for (a = 0; a < NX; a++) {
      m->v[a] += s / 6 * (k[0][a] + 2 * k[1][a] + 2 * k[2][a] + k[3][a]);
      if (!isfinite(m->v[a])) return 0;
    }
  }
  m->v[AT_T] = begin + h;
  m->fresh = 0;
  return 1;
}

/* d unknowns / d knowns times a direction; unknowns are rates and outputs, knowns states, inputs and parameters */
static int model_derivative(Model *m, const unsigned *unknown, size_t rows, const unsigned *known, size_t columns,
                            const double *direction, double *result) {
  double seed[AT_T + 1] = {0}, change[SIZE(NX + NY)];
  const double *arg[7] = {m->v + AT_T, m->v, m->v + AT_U, m->v + AT_P, seed, seed + AT_U, seed + AT_P};
  double *res[1] = {change};
  size_t i;
  for (i = 0; i < columns; i++) {
    const unsigned c = known[i];
    if (c >= AT_T || (c >= AT_DX && c < AT_U) || (c >= AT_Y && c < AT_P)) return 0;
    seed[c] += direction[i];
  }
  dyn_forward(arg, res, 0, 0, 0);
  for (i = 0; i < rows; i++) {
    const unsigned r = unknown[i];
    if (r < AT_DX) result[i] = seed[r];
    else if (r < AT_U) result[i] = change[r - AT_DX];
    else if (r >= AT_Y && r < AT_P) result[i] = change[r - AT_Y + NX];
    else return 0;
  }
  return 1;
}
