/* Mode rates: the rate of a hybrid model is that of the mode in which it is; in front of stages.c, for steps chosen by radau5.

   The text in front defines RATE[mode], RATE_X[mode] as dyn_rate and dyn_rate_x, with the entries of all modes together, and
     RATE_Q[mode]   (t, x, u, du, p) -> rate, entries by (x, free p, time), where the inputs move with du
   What says which mode it is travels with the parameters. */

typedef struct {
  const double *p, *du; /* du: slope of the inputs */
  int mode;
} Modal;

typedef const Modal *Parameters;

INLINE void rate(double t, const double *x, const double *u, Parameters p, double *k) {
  const double *arg[4] = {&t, x, u, p->p};
  double *res[1] = {k};
  RATE[p->mode](arg, res, 0, 0, 0);
}

INLINE void rate_x(double t, const double *x, const double *u, Parameters p, double *k, double *J) {
  const double *arg[4] = {&t, x, u, p->p};
  double *res[2] = {k, J};
  RATE_X[p->mode](arg, res, 0, 0, 0);
}

INLINE void rate_q(double t, const double *x, const double *u, Parameters p, double *k, double *J) {
  const double *arg[5] = {&t, x, u, p->du, p->p};
  double *res[2] = {k, J};
  RATE_Q[p->mode](arg, res, 0, 0, 0);
}
