"""The papers: what to read past in their print, with the equation, and the other sources of the toolkit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Misprint:
    """A place of a paper, what stands there, and what is meant."""

    paper: str
    place: str
    printed: str
    meant: str


MISPRINTS = (
    Misprint("direct", "Table I", "n_x M and n_x N constraints",
             "n_x (M - 1) and n_x (N - 1), as its eq. (5) and its full discretization say"),
    Misprint("direct", "Table II, kappa_1 and kappa_2", "kappa_1 is called viscous (N m/s), kappa_2 dry friction (N m)",
             "kappa_1 multiplies tanh(a theta') and is the dry friction (N m), kappa_2 multiplies theta' and is the viscous "
             "one (N m s)"),
    Misprint("direct", "Sec. II, time points", "t_0 = t_1 < t_2 < ...", "the first time point has two names; N points in all"),
    Misprint("intervals", "captions of Figs. 7 and 8", "alpha = 4.5", "alpha = -4.5: the plant is stable, and Fig. 6 begins "
             "with alpha in [-6, 0]"),
    Misprint("intervals", "rule (12)", "the comparison decides between alpha and beta",
             "as printed it is never true in forward sliding, and with the other sign always: one of the two is never split"),
    Misprint("fmi", "(6)", "the double sum of the exponent stands inside of the product", "it belongs outside of it"),
    Misprint("fmi", "(7a) and the linearised problem", "residuals weighted with Sigma^-1",
             "Sigma^-1/2, residuals divided by sigma, as the log-likelihood two lines above asks"),
    Misprint("thesis", "(3.9)", "the functional without a factor", "the 1/2 of (3.8) is missing"),
    Misprint("thesis", "(3.13) and (7.4b)", "the sign of the measurement term",
             "lambda' = -(dPhi/dx)^T lambda - (dpsi/dx)^T V (m - y) follows from (3.8) with x' = Phi + W^-1 lambda"),
    Misprint("thesis", "(3.16)", "the boundary conditions are torn", "[-R0 I; 0 0] X(t0) + [0 0; 0 I] X(tf) = [-R0 x0; 0]"),
    Misprint("thesis", "(4.18)", "J(s) (s_new - s) = F(s)", "a minus before F(s)"),
    Misprint("thesis", "(5.4)", "h <= 1/lambda", "h <= 2/|lambda|"),
    Misprint("thesis", "(7.14), (7.15)", "y'' = u - F* arctan(A y'), and the input is called F",
             "y'' = (u - F* arctan(A y'))/m"),
    Misprint("thesis", "Table 7.1", "Error 230", "a code of MUSN (damping factor too small); Table 6.1 does not have it"),
    Misprint("thesis", "Tables 7.2 and 7.4", "lost and torn in the text", "the starts of Table 7.8, said to be the same"),
    Misprint("filter", "(1) and (16)", "u_k in (1), u_{k-1} in (16)", "the input that acts over the step"),
    Misprint("filter", "(6)", "the Jacobian at the prediction", "at the last estimate, x_{k-1}"),
    Misprint("filter", "(7)", "K = P H^T (H P H^T + R)", "K = P H^T (H P H^T + R)^-1: the inverse is missing"),
    Misprint("filter", "(11)", "the same noise twice", "the second noise is omega, that of the parameters"),
    Misprint("filter", "(22)", "the last half step uses Psi(s_k, v_{k-1/2})",
             "explicit so, and of second order only without velocity-dependent forces; Heun kicks make it second order"),
    Misprint("filter", "(29)", "signs of the belt forces", "both act on the motor with -r1 and on the load with +; "
             "F_c = c_eff(x2) (x1 r1 - x2), F_d = d (x3 r1 - x4)"),
    Misprint("filter", "(32)", "Theta_init twice, without units", "once the covariance and once the values of the parameters; "
             "a variance of 0.1 only makes sense in scaled units"),
)

SOURCES = """## Other sources

- H. G. Bock: *Numerical treatment of inverse problems in chemical reaction kinetics*. In: Modelling of Chemical Reaction
  Systems, Springer Series in Chemical Physics 18, 1981, 102-125. Multiple shooting and the generalised Gauss-Newton
  method.
- P. Deuflhard: *Newton Methods for Nonlinear Problems*. Springer, 2004. Natural monotonicity.
- J. Nocedal, S. J. Wright: *Numerical Optimization*. Springer, 2006. Damped BFGS, the l1 merit function.
- D. A. Belsley, E. Kuh, R. E. Welsch: *Regression Diagnostics*. Wiley, 1980. Collinearity.
- L. Ljung: *System Identification: Theory for the User*. Prentice Hall, 1999. Residual tests.
- A. C. Monti: *A proposal for a residual autocorrelation test in linear models*. Biometrika 81, 1994, 776-780.
- E. D. Dolan, J. J. Moré, T. S. Munson: *Benchmarking Optimization Software with COPS 3.0*. ANL/MCS-TM-273. Two
  reference problems of the tests.
- A. Janot, M. Gautier, M. Brunot: the record of the Electro-Mechanical Positioning System, nonlinearbenchmark.org (2019
  workshop). The real servo axis.
- J. Andersson, J. Gillis, G. Horn, J. Rawlings, M. Diehl: *CasADi: a software framework for nonlinear optimization and
  optimal control*. Mathematical Programming Computation 11, 2019. What dynident computes derivatives with.
"""
