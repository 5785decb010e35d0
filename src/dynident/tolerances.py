"""Tolerances: every number that decides convergence or rank, on one page, with its unit and its reason.

A number that bounds work (iterations, trials) or shapes a start stands where it is used. Here stands what decides whether
an answer is called converged, active, met or determined, so that the policy of the whole toolkit can be read at once.
Sections follow the rooms; a threshold that must differ from another of its kind says why.
"""

# -- convergence of least squares (solvers): lengths of steps in standard errors, which have the same meaning in any unit

STEP_TOLERANCE = 1e-5  # standard errors; a remaining step this short is none
STALLED_STEP_TOLERANCE = 1e-3  # standard errors; the same where no step helps any more: no printed digit depends on it
COST_ROUNDING = 1e-13  # relative; differences of the cost below this are noise of the arithmetic
RESIDUAL_ROUNDING = 1e-12  # of the data; a fit whose residuals are that small is exact in double precision
SIMULATION_ROUNDING = 1e-3  # of RESIDUAL_ROUNDING: what rounding does to one simulated value, 1e-15 of the data
ROUNDING_STEP = 1e-12  # of everything's typical size; such a step is rounding
CONTRACTED_STEP = 1e-9  # typical sizes; a simplified step this short passes the natural monotonicity test ...
CONTRACTING_STEP = 1e-6  # ... of a step this short: both are rounding of the linear algebra, and their ratio says nothing
SUFFICIENT_REDUCTION = 1e-4  # of the predicted reduction; less is no success (trust region)
UNBOUNDED_STEP = 1e4  # typical sizes; only what the data do not see asks for an undamped step of this length

# -- matching conditions and constraints

DEFECT_TOLERANCE = 1e-9  # of the states' size, as a sum over the links: segments that miss each other by less meet
NODE_STEP_TOLERANCE = 1e-6  # of the states' size; nodes that would still go further than this have not settled
NODE_GAIN_TOLERANCE = 1e-2  # standard errors; what nodes that may miss their links would still gain, all of them together
CONSTRAINT_TOLERANCE = 1e-8  # of the terms of a constraint; a violation below it is rounding
ACTIVE_CONSTRAINT = 1e-6  # of the terms of a constraint; an inequality this close to its limit is active
MULTIPLIER_TOLERANCE = 1e-12  # of a column's length times the residual's: a pull off a bound (KKT) that is rounding
CONSTRAINT_PROGRESS = 0.9  # of the violation ten iterations ago; constraints that fell by less are infeasible

# -- general solvers (Ipopt, SQP, SLSQP), in their scaled variables

NLP_TOLERANCE = 1e-9  # optimality of the scaled program
NLP_FEASIBILITY = 1e-10  # violation of the scaled constraints
SQP_DUAL_TOLERANCE = 1e-7  # the SQP method's Lagrange gradient; below it its QP solver returns rounding
NLP_ACTIVE_BOUND = 1e-6  # an interior point method ends this close to a bound that is active
SLSQP_TOLERANCE = 1e-8  # change of a cost of size one that ends the search
SLSQP_FEASIBILITY = 1e-6  # violation of the scaled constraints
SLSQP_STALLED_GRADIENT = 1e-4  # projected gradient at which a stall is an optimum to within rounding

# -- what the data see: rank and regularisation

SINGULAR_VALUE = 1e-8  # relative, columns of length one; below it a direction is rounding or the error of differences
SINGULAR_VALUE_EXACT = 1e-11  # the same for derivatives without error: an unstable model shows parameters that late
SINGULAR_VALUE_PROJECTION = 1e-10  # the same for unknowns that are projected out: what is missed there only costs a digit
SINGULAR_VALUE_ROUNDING = 1e-12  # the same for a step: below it a direction is null to rounding on every processor, and rests;
# ten times below what an unstable model may still show, a hundred times above what rounding leaves of equal columns
NO_EFFECT = 1e-14  # of the largest effect of any parameter over its own magnitude; below it a column is rounding
NULL_SPACE_COMPONENT = 1e-5  # along an undetermined direction, up to which a parameter still counts as determined
RANK_DAMPING = 1e-22  # of squared columns: keeps a rank deficient step finite, far below what the data say, even where an
# unstable model lets a parameter show only in the 10th digit of a column
UNOBSERVABLE_STEP = 0.1  # standard errors; a direction in which going by a typical size is worth less is not seen by the data
ZERO_SENSITIVITY = 1e-13  # of the largest column, each for a typical change of its unknown: no effect to first order

# -- safeguards: local minimum, stationary start or minimum at infinity

SAME_COST = 1e-9  # relative; a cost or a defect that differs by less is the same
UNBOUNDED_DISTANCE = 1e3  # times the start; where nothing is further away, no minimum lies at infinity
UNBOUNDED_RETURN = 3.0  # times; an unknown that is still that much further away after a restart has not come back
COMPARABLE_DEFECT = 1e-6  # of the states' size, up to which two costs are of the same kind
SAME_FIT = 1.0  # standard errors; a cost that is higher by less fits as well

# -- plans (design)

PLAN_VIOLATION = 1e-9  # of a constraint's scale; what two simulations at different steps may differ by
PLAN_EQUALITY = 1e-4  # of a constraint's scale; how closely a fine simulation must meet an equality
PLAN_INTEGRATION = 1e-4  # relative change of outputs and sensitivities when steps are halved, small enough to plan with
PLAN_SAME_COST = 1e-3  # of the cost, or of one; starts that end this close found the same optimum
PLAN_SAME_MOTION = 1e-6  # of a state's size; a record with all modes that is further off left the mode it was planned for
PLAN_ALONG_GUARD = 1e-3  # of what a plan moves through; closer to a guard than this it goes along it
PLAN_STD_ACHIEVED = 1.25  # times the predicted standard deviation; noise levels are rarely known better
PLAN_NOMINAL_SHIFT = 3.0  # standard deviations before the run; values that moved further were planned for another machine

# -- simulation

STEP_HALVING_TOLERANCE = 1e-7  # of the largest value of a signal; a simulation that halving its steps changes by less is right

# -- proofs (set membership)

HULL_SHRINKAGE = 0.95  # of a width; a round of contraction that leaves more of every width has converged, and proves no less

# -- Kalman filters and fleets

LIKELIHOOD_TOLERANCE = 1e-7  # relative; a change of the log-likelihood below it ends the search for noise levels
COVARIANCE_PIVOT = 1e-13  # of a variance; below it a direction is known exactly, or through others (as in filter_common.c)
COVARIANCE_NEGATIVE_PIVOT = -1e-6  # of a variance; rounding makes no pivot of a covariance as negative as this (likewise)
SPREAD_TOLERANCE = 1e-3  # relative; a change of the spread between machines below it moves no outlier
SHARED_STEP_TOLERANCE = 1e-2  # standard errors; for what a fleet shares, where a step costs a pass over all records
SHARED_STALLED_STEP_TOLERANCE = 0.1  # standard errors; the same where no step helps any more
SHARED_COST_ROUNDING = 1e-12  # relative; two sums over thousands of records that differ by less are the same
