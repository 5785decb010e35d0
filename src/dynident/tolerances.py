"""Tolerances: every number that decides convergence or rank, on one page, with its unit and its reason.

A number that bounds work (iterations, trials) or shapes a start stands where it is used. Here stands what decides whether
an answer is called converged, active, met or determined, so that the policy of the whole toolkit can be read at once.
Sections follow the rooms; a threshold that must differ from another of its kind says why.
"""

# -- convergence of least squares (solvers): lengths of steps in standard errors, which have the same meaning in any unit

STEP_TOLERANCE = 1e-5  # standard errors; a remaining step this short is none
STATIC_STEP_TOLERANCE = 1e-9  # standard errors; the same for models without states, whose certified answers have more digits
HIDDEN_STEP = 2.0  # times the noise floor, where no step helps: one that is longer would gain more than three deviations of
# what the simulation's noise adds to the difference of two costs, and would have been seen to
STALLED_STEP_TOLERANCE = 1e-3  # standard errors; the same where no step helps any more: no printed digit depends on it
COST_ROUNDING = 1e-13  # relative; differences of the cost below this are noise of the arithmetic
RESIDUAL_ROUNDING = 1e-12  # of the data, or of a signal's std; a fit with residuals that small is exact in double precision
SIMULATION_ROUNDING = 1e-3  # of RESIDUAL_ROUNDING: what rounding does to one simulated value, 1e-15 of the data
ROUNDING_STEP = 1e-12  # of everything's typical size; such a step is rounding
CONTRACTED_STEP = 1e-9  # typical sizes; a simplified step this short passes the natural monotonicity test ...
CONTRACTING_STEP = 1e-6  # ... of a step this short: both are rounding of the linear algebra, and their ratio says nothing
SUFFICIENT_REDUCTION = 1e-4  # of the predicted reduction; less is no success (trust region)
BENT_STEP = 0.75  # of a step: twice its acceleration may be as long; more, and derivatives do not hold so far (Transtrum)
STRAIGHT_DISTANCE = 1e-2  # standard errors; with less left a step is straight, and differences along it meet rounding
RELAXED_STEP_TOLERANCE = 0.1  # standard errors; for a start from decoupled segments: noise in their nodes moves it by more
REFIT_STEP_TOLERANCE = 1e-3  # standard errors; for refits to resampled data, whose scatter is one standard error (bootstrap)
PROFILE_STEP_TOLERANCE = 3e-3  # standard errors; for refits along a profile: the rise of the cost is then right to 1e-5
NOISE_STD_TOLERANCE = 1e-3  # relative; a change of an estimated noise std below it moves no weight that matters
NOISE_MIXING_RANK = 1e-3  # of the largest difference between rounds of noise levels; smaller ones are what the solves left
NOISE_MODEL_TOLERANCE = 1e-3  # change of a logarithm of variance and of reflection coefficients; no interval shows less
LONGEST_LOG_STEP = 4.6  # a hundredfold: further a logarithm does not go in one step, since no derivative holds over decades
UNBOUNDED_STEP = 1e4  # typical sizes; only what the data do not see asks for an undamped step of this length

# -- records (problem/problem_checks.py): sums of squares of signals and of residuals have to be numbers of double precision

SMALLEST_SIGNAL = 1e-120  # the largest value of a signal; residuals of a smaller one, squared, come to nothing
LARGEST_SIGNAL = 1e151  # likewise; squares of a larger one, summed over a million samples, are no finite number
EQUAL_LEVELS = 1e-8  # logarithm of a ratio; the difference of nearer logarithms is rounding (problem/noise.py)
CONSTANT_NOISE = 1e-12  # of the largest std; one that varies by less along a record is constant (statistics/verdict_rule.py)

# -- records that were prepared (problem/prepare.py, problem/output_filter.py)

UNEVEN_SAMPLING = 1e-3  # of the sample time: a distance that differs by more is no jitter, and a filter needs even distances
EVEN_SAMPLING = 1e-9  # of a record's length; distances that differ by less are equal but for the rounding of time stamps
SHARED_NOISE = 0.1  # correlation of filtered noise; samples that share less are as good as independent: intervals lose 1 %
END_EFFECT = 1e-3  # of a filter's largest weight: a sample that weighs less is not felt
WHOLE_STEPS = 1e-6  # of the sample time: a shift that differs by less from whole samples moves samples to samples

# -- models

SYMMETRIC_MASS_MATRIX = 1e-9  # of its largest entry; a mass matrix that differs from its transpose by less is symmetric
ZERO_AXIS = 1e-9  # length of a joint's axis in a URDF, which should be one; a shorter one has no direction

TRACE_TOLERANCE = 1e-9  # of one plus a rate; a traced function that differs from the original by more is another one

DEAD_TIME_GAIN = 0.1  # of the cost; a dead time that fits better than the user's start by less is no better start

SAMPLE_TIME_JITTER = 0.05  # of a sample time; a record whose steps are further from whole ones was sampled otherwise

# -- matching conditions and constraints

DEFECT_TOLERANCE = 1e-9  # of the states' size, as a sum over the links: segments that miss each other by less meet
NODE_STEP_TOLERANCE = 1e-6  # of the states' size; nodes that would still go further than this have not settled
LINKED_DEFECT = 1e-4  # of the states' size; segments of a first look that miss each other by more do not meet (automatic)
NODE_GAIN_TOLERANCE = 1e-2  # standard errors; what nodes that may miss their links would still gain, all of them together
CONSTRAINT_TOLERANCE = 1e-8  # of the terms of a constraint; a violation below it is rounding
CONSTRAINT_CHECK = 1e-4  # of the terms of a constraint; one that the nearest values miss by more is infeasible (check)
ACTIVE_CONSTRAINT = 1e-6  # of the terms of a constraint; an inequality this close to its limit is active
MULTIPLIER_TOLERANCE = 1e-12  # of a column's length times the residual's: a pull off a bound (KKT) that is rounding
CONSTRAINT_PROGRESS = 0.9  # of the violation ten iterations ago; constraints that fell by less are infeasible
UNRESOLVED_GROWTH = 1e11  # of a difference between two states along a record; rounding then spoils the fifth digit of nodes
MODEST_GROWTH = 100.0  # the same; a segment that starts off by a percent of the record is then still near it at the end

# -- general solvers (Ipopt, SQP, SLSQP), in their scaled variables

NLP_TOLERANCE = 1e-9  # optimality of the scaled program
NLP_FEASIBILITY = 1e-10  # violation of the scaled constraints
SQP_DUAL_TOLERANCE = 1e-7  # the SQP method's Lagrange gradient; below it its QP solver returns rounding
SQP_FEASIBILITY = 1e-9  # mean violation of the scaled constraints
SQP_STEP = 1e-8  # of a variable's size; a shorter step of the quadratic program is rounding
SQP_FALL = 1e-8  # of the objective: a point from which the linearised problem promises no more is an optimum to rounding
SQP_SLOW_GAIN = 1e-3  # of the objective; a step of BFGS that gains less, five times in a row, is led by matrices of elsewhere
SQP_ROUNDING = 1e-14  # of the merit function; a smaller fall cannot be seen
SQP_ARMIJO = 1e-4  # share of the fall that the slope promises; the usual one, so that nearly every fall is taken
SQP_SHORTEST_STEP = 1e-10  # share of a step; below it the merit function does not fall along it
SQP_STEEPEST = 10.0  # times the slope with which a limited step begins; where it ends steeper than that stands a wall
SQP_SHORTEST_REACH = 1e-6  # of a variable's size; a limit below it would look like convergence
SQP_CONVEXITY = 1e-12  # of the largest curvature; more below zero is negative curvature, not rounding
SQP_LIFTS = (0.0, 1e-10, 1e-6)  # of each curvature, added in turn where a nearly singular quadratic program has no answer
SQP_SUBPROBLEM = 1e-6  # optimality of a quadratic program whose gradient is of size one
SQP_ACTIVE_SET_VARIABLES = 200  # up to which an active-set method is asked where the interior point method has no answer
BFGS_DAMPING = 0.2  # Powell's share of the curvature that is there already
BFGS_SKIPPED_STEP = 1e-12  # of a variable's size; the gradients of a shorter step differ by rounding
NLP_ACTIVE_BOUND = 1e-6  # an interior point method ends this close to a bound that is active
CONSTRAINT_WEIGHT = 1e4  # over the std that data leave to a constraint; met to 1e-8 of a std, and 1e8 of 1e16 digits stay
SLSQP_TOLERANCE = 1e-10  # change of a cost of size one that ends the search
SLSQP_FEASIBILITY = 1e-6  # violation of the scaled constraints
SLSQP_STALLED_GRADIENT = 1e-4  # projected gradient at which a stall is an optimum to within rounding

# -- what the data see: rank and regularisation

LINEAR_ROUNDING = 1e-10  # of the largest output; a second difference below it is rounding: the model is linear in its unknowns
SINGULAR_VALUE = 1e-8  # relative, columns of length one; below it a direction is rounding or the error of differences
SINGULAR_VALUE_EXACT = 1e-11  # the same for derivatives without error: an unstable model shows parameters that late
SINGULAR_VALUE_PROJECTION = 1e-10  # the same for unknowns that are projected out: what is missed there only costs a digit
RANK_MARGIN = 10.0  # times the tolerance, as a bound on the smallest singular value: the rank is full beyond doubt then, and no
# singular values are computed; what is nearer is left to them
SINGULAR_VALUE_ROUNDING = 1e-12  # the same for a step: below it a direction is null to rounding on every processor, and rests;
# ten times below what an unstable model may still show, a hundred times above what rounding leaves of equal columns
GROWN_ROW = 1e3  # times the median row of the sensitivities; larger ones have grown along a record whose model is unstable
SINGULAR_VALUE_EQUAL_ROWS = 1e-6  # relative, where grown rows are divided down: a hundred times the error of an integrator with
# error control, so that what the step's error leaves of a null direction is not taken for a determined one
SINGULAR_VALUE_CHOSEN = 1e-15  # the same for columns that were chosen to be independent: the choice was the decision
IDLE_COLUMN = 1e-12  # of the longest column of a robot's regressor; a shorter one is rounding, and acts on nothing
IDLE_JOINT = 1e-9  # of the fastest joint's velocity; a joint that moves less stands, and its bandwidth is nobody's
SAME_ESTIMATES = 1e-6  # of the largest variance of a difference of two estimates; what is smaller is rounding of equal ones
SINGULAR_INERTIA = 1e-10  # of joints' own inertias; an eigenvalue of their mass matrix nearer to zero resists no torque
NO_INERTIA = 1e-14  # of the largest inertia of a joint or link; less is what rounding leaves of a mass on the axis
IMPOSSIBLE_BODY = 1e-9  # of the largest eigenvalue of a pseudo-inertia; a body with one further below zero is impossible
NO_EFFECT = 1e-14  # of the largest effect of any parameter over its own magnitude; below it a column is rounding
NULL_SPACE_COMPONENT = 1e-5  # along an undetermined direction, up to which a parameter still counts as determined: below it,
# an entry of a null direction is rounding
SAME_SUBSPACE = 1e-4  # rad; null spaces that agree at random points this closely do not depend on the values
INTEGER_TOLERANCE = 2e-3  # a coefficient of a null direction this close to an integer is one: they carry derivative errors
INVARIANT = 1e-5  # of its terms; a function that changes by less along a direction is constant along it (derivatives: 1e-8)
INDEPENDENT_GRADIENT = 1e-6  # of a gradient; what is left of it beside others is a fact of its own
EQUAL_INVARIANT = 1e-12  # of an invariant's change with its unknowns; values that differ by less have equal invariants ...
EXACT_INVARIANT = 1e-14  # ... and Newton's method for them ends here, at the rounding of the invariant itself
REPLACED_REGRESSOR = 1e-8  # of the largest singular value; a regressor below it is replaced by the others (model error)
SAME_OUTPUTS = 1e-5  # of what an unknown alone would change; values that change the outputs by less are indistinguishable: the
# first digits printed of them are as exact
SAME_OUTPUTS_BY_DIFFERENCES = 1e-4  # the same where the direction itself was found by differences, whose error bends it
LOST_SIZE = 1e-6  # of its start: a value that is smaller has the size of a remainder, not of a quantity
OUTPUT_ROUNDING = 1e-11  # of the outputs; a change below it is the rounding of two simulations
SEEN_OUTPUTS = 1e-8  # of the outputs; a change above it is one, whatever the noise
FAINT_ROW = 1e-7  # of the largest sensitivity so far in a record; below it a row is rounding of what came before
NEGLIGIBLE_COEFFICIENT = 1e-6  # of a base parameter, columns of length one; below it is rounding
SHOWN_COEFFICIENT = 1e-7  # of a robot's parameter in a sum; smaller ones are rounding of the recorded motion
COLLINEAR = 10.0  # condition index from which columns are near-collinear: two that correlate by 0.98 (Brun et al. 2001)
UNIDENTIFIABLE_STD = 10.0  # std over the start or scale; beyond, practically unidentifiable: no linearised model holds that far
UNIDENTIFIABLE_FACTOR = 10.0  # the same for logarithms: one standard deviation is a factor of ten
UNSURE_STD = 0.5  # std over the value; above it not even the sign is sure, so that a far start cannot be the reason
FLAT_PROFILE = 1e-3  # rise of the weighted sum of squares; a profile that stays below it is flat
NO_WIDTH = 1e-5  # of what follows an inequality: less is the rounding of a constraint that counts as a measurement
RANK_DAMPING = 1e-22  # of squared columns: keeps a rank deficient step finite, far below what the data say, even where an
# unstable model lets a parameter show only in the 10th digit of a column
UNOBSERVABLE_STEP = 0.1  # standard errors; a direction in which going by a typical size is worth less is not seen by the data
ZERO_SENSITIVITY = 1e-13  # of the largest column, each for a typical change of its unknown: no effect to first order

# -- safeguards: local minimum, stationary start or minimum at infinity

SAME_COST = 1e-9  # relative; a cost, a defect or a vector of residuals that differs by less is the same
SAME_OPTIMUM = 1e-3  # of the cost, or of one: 1e-3 of a squared standard error is 0.03 of one; ends this close are one optimum
SAMPLING_GAIN = 1e-9  # of a criterion, a logarithm of standard deviations; an exchange of two samples that gains less is none
SAMPLING_ROUND_GAIN = 1e-3  # the same; planning input and samples in turn ends where a round gains less
FAR_FROM_START = 1e3  # typical sizes; a solve that ends further away may have passed the optimum, and is repeated
ZERO_OF_KIND = 1e-2  # of the largest of its kind in an arm; a parameter that starts nearer to zero has no size of its own
UNBOUNDED_DISTANCE = 1e3  # times the start; where nothing is further away, no minimum lies at infinity
SUSPECT_DISTANCE = 10.0  # times the start; the same for unknowns of which it is known that the data hardly hold them
ALONG_FRACTION = 0.03  # of these two; an unknown that far may run along with the one that is
UNBOUNDED_RETURN = 3.0  # times; an unknown that is still that much further away after a restart has not come back
ON_BOUND = 1e-9  # of a course's largest value; a smoothed course so far outside of a bound is on it
COMPARABLE_DEFECT = 1e-6  # of the states' size, up to which two costs are of the same kind
ALIAS_CHANGE = 0.05  # of the cost, and of the states' size; a point that finer steps change by more is an alias of the steps
SAME_NUMBER = 1e-3  # relative; values of two methods whose intervals are withheld, if they print alike, are one answer
SAME_FIT = 1.0  # standard errors; a cost that is higher by less fits as well

# -- belief and verdict: which residuals are noise, which ends are the same (automatic, statistics)

MEMORY_WHITE = 0.15  # of the variance, plus 6/samples; white residuals predict less of each other (right fits .08 at the most)
LAG_ONE_WHITE = 0.25  # autocorrelation of neighbours; likewise (right fits .12, wrong minima .64 and more)
CHI_SQUARE_CONFIDENCE = 0.999  # of the limit of reduced chi-square, at the effective number of samples ...
CHI_SQUARE_LEAST, CHI_SQUARE_HIGHEST = 1.25, 2.0  # ... which lies between these for sixty samples and more
HIDDEN_ERROR = 0.7  # of the noise's rms; a short record that would hide a larger error is not called noise
CHI_SQUARE_TOO_SMALL = 0.6  # reduced; residuals as small as this say that the given std is too large to prove anything
EACH_UNLIKELY = 0.05  # probability of residuals so large, and of neighbours so alike, each of which noise has now and then
TOGETHER_UNLIKELY = 1e-4  # the product of the two; white noise of the given size has it in one of a thousand fits
LEAST_INNOVATION = 0.1  # of the variance; slow noise has more that is new at each sample (AR(0.9) .19), a wrong model less
NAIVE_SHARE = 0.9  # of what a straight line leaves; a model that leaves more explains nothing
TREND_SHARE = 0.5  # of the signal; what leaves less describes a record that is a trend and white noise
QUANTISATION_SHARE = 0.33  # of a quantisation step; residuals of rounding alone have 0.29
QUANTISATION_DOMINATES = 0.7  # of the variance of what is left over; with more due to rounding, errors are those of rounding
QUANTISATION_NOTICED = 1.1  # times a standard error: rounding that widens none by more is no matter of correlation
SMALL_REMAINDER = 0.1  # of the signal; a choice: what is more than this is no description of a record
EXACT_RECORD = 1e-8  # of the signal; a record without noise: an integrator's error is a tenth, what a fit makes of it as much
EXACT_REMAINDER = 1e-4  # of the signal; no wrong minimum comes as close as this, whatever is left over looks like
ROUGH_REMAINDER = 0.4  # of the signal; a choice: a model that leaves more does not describe the record
NOISE_FREE = 0.03  # of the given std; residuals that are smaller are those of a record without noise, which keeps the given std
CHI_SQUARE_SLOW_LEAST = 0.75  # reduced; slow residuals that are smaller prove nothing: the given std may be too large
CHI_SQUARE_SLOW = 1.15  # reduced; slow residuals that are larger may hold an error of the model
FEW_SMALL_REMAINDER = 0.2  # of the signal; as SMALL_REMAINDER, for records too short to tell what of a remainder is noise
SLOW_REMAINDER = 0.15  # of the signal; what is more is not called slow noise, whatever it looks like
UNRELATED_LOG10_P = -3.0  # of the F test on whitened residuals; below it they follow inputs or motion
INNOVATION_LOG10_P = -4.0  # of the F tests on innovations; below it they follow what was known before them
LEARNING_SHARE = 0.25  # of a record, in which a filter that learns parameters is not asked whether its errors follow anything
SIMULATED_TO_INNOVATIONS = 3.0  # the error of a simulation; below it a black box that is fitted comes as near to any record
LINEAR_TO_INNOVATIONS = 1.15  # times the innovations; right models whose noise is in them: 1.9 and more, wrong ones 0.85
LINEAR_AS_GOOD = 1.1  # times the model's error; a linear black box of the same order that leaves no more is as good ...
SMALL_REMAINDER_LINEAR = 0.04  # of the signal; ... and a remainder that follows input or motion is small below this only
BY_INPUT_LOG10_P = -6.0  # of the F test on residuals in the order of an input; below it they are no noise, white as they are
FOLLOWS_SHARE = 0.1  # of the whitened residuals' square: what input and motion explain of a remainder that they cause
LINEAR_BETTER = 0.7  # of the model's error; a linear black box of the same order that leaves less shows what the model misses
OUTLIER_KURTOSIS = 3.0  # excess; 2 % of outliers of ten std give 11 and more, normal noise 1.1 at the most
VALIDATION_SAME = 1.5  # times the noise; an error on a new record that is no larger is noise
AHEAD_WORSE = 1.0  # of the error of the last value held; a prediction that errs by more is none
UNSURE_CONFIDENCE = 0.99  # of what errors of the fitted values may change on a new record; more is an error of the model
AS_IN_THE_FIT_LOG10_P = -1.3  # of the F test, on a new record, where the fit showed an effect that the model misses: 5 %
VALIDATION_MOVES = 3.0  # times the noise; a new record that moves less tells nothing
SMOOTHED_LIMIT = 1.3  # weighted squares per measured value; a smoother that leaves more does not follow the record either
LEAST_OF_NOISE = 0.3  # of the noise that differences of the record show; a smoother that leaves less has followed the noise
SETTLED_MISFIT = 0.1  # chi-square; fits that stop within it lie within a third of a standard error
TIED_MISFIT = 1e-6  # relative; ends that differ by less are told apart by rounding alone, and the first of them counts
SAME_MISFIT = 1e-3  # relative; ends of two routes that differ by less are the same minimum
BETTER_MISFIT = 1e-2  # relative; a route that gains less has found nothing else
BENDS_DOWN = 0.02  # of what is left over, that a step of one along a bend gains; differences err by 1e-3 of the largest bend

# -- plans (design)

PLAN_VIOLATION = 1e-9  # of a constraint's scale; what two simulations at different steps may differ by
PLAN_EQUALITY = 1e-4  # of a constraint's scale; how closely a fine simulation must meet an equality
PLAN_INTEGRATION = 1e-4  # relative change of outputs and sensitivities when steps are halved, small enough to plan with
PLAN_SAME_MOTION = 1e-6  # of a state's size; a record with all modes that is further off left the mode it was planned for
PLAN_ALONG_GUARD = 1e-3  # of what a plan moves through; closer to a guard than this it goes along it
PLAN_STD_ACHIEVED = 1.25  # times the predicted standard deviation; noise levels are rarely known better
PLAN_RIDGE = 1e-10  # of a parameter's own magnitude, squared: keeps a covariance finite while nothing is excited yet
PLAN_NOMINAL_SHIFT = 3.0  # standard deviations before the run; values that moved further were planned for another machine

# -- profiles (verbs)

PROFILE_FALL = 1e-2  # of the sum of squares in units of the noise; a profile that falls by more says: no optimum
PROFILE_DISTANCE = 1e3  # times the estimate's own size; a profile that has not risen until there will not: no limit
PROFILE_SHORTEST_STEP = 1e-9  # of the first step; a profile that cannot even do this stands at a wall

# -- simulation

INTEGRATION_TOLERANCE = 0.02  # standard errors; an integrator's error in weighted outputs moves no estimate by more than it
INTEGRATION_WRONG = 1.0  # standard errors; where an independent integrator differs by more, and the next two say that it is not
# a matter of crude steps, the trajectory is not the model's and the fit has not converged
INTEGRATION_FOOLED = 3.0  # times what halved steps said: a larger difference to an independent integrator says that they erred
INTEGRATION_ELSEWHERE = 0.05  # of the outputs; a difference that large is no matter of crude steps
STIFF_STEP = 1.0  # spectral radius times step; an accurate step of Runge-Kutta is shorter, and beyond 2.8 it is unstable
INTEGRATION_EXACT = 1e-9  # of the signals; an integrator's error below it is good enough where there is next to no noise
STEP_HALVING_TOLERANCE = 1e-7  # of the largest value of a signal; a simulation that halving its steps changes by less is right
LIVE_CURVE_CHANGE = 1e-3  # of the largest value: what halved steps may change of a curve that follows a slider

# -- one step (integrators; the first five stand in event_location.c and implicit_stages.c as well)

EVENT_TIME = 1e-14  # of a step; how closely an event is located: bisection ends there, whatever the guards' scale
EVENT_AT_ONCE = 1e-9  # of a step; what changes sign within it does so now: it is the guard just crossed, or one that joins it
SAME_MOTION = 1e-6  # of a state's size; segments that end and begin this close follow one motion, in one mode
INPUT_CORNER = 1e-9  # of an input's largest value or slope; a change of it from one step to the next above this is a corner
STAGE_NEWTON_STEP = 1e-8  # of a stage and of its first correction; the next correction is then far below rounding
STAGE_NEWTON_ROUNDING = 1e-12  # of the largest stage; a correction that small and no longer shrinking is rounding
ALGEBRAIC_NEWTON_STEP = 1e-8  # of an algebraic variable and of its first correction; the next is then far below rounding
ALGEBRAIC_NEWTON_ROUNDING = 1e-10  # of the largest variable; a correction that small and no longer shrinking is rounding
ALGEBRAIC_NEWTON_LEAST = 1e-6  # its unit; an algebraic variable near zero is rounded as one of this size is
ALGEBRAIC_SYMMETRIC = 1e-12  # of the largest entry; a matrix nearer to its transpose at random places is symmetric
ALGEBRAIC_ZERO = 1e-9  # of a matrix of random numbers near one: an entry of its inverse that small is always zero
ALGEBRAIC_SINGULAR = 1e-10  # smallest singular value of dg/dz, its rows and columns of size one: below, z is not determined
ALGEBRAIC_PIVOT = 1e-8  # of the matrix's largest entry; L D L' with a smaller pivot gives way to elimination with row pivots
CVODES_RELATIVE = 1e-9  # relative error of a step that cvodes chooses; a fit takes it for the noise of its simulations
CVODES_ABSOLUTE = 1e-11  # units of a state; the same for states near zero
REST_TOLERANCE = 1e-6  # of a state's largest value: what moves less in the last and longest wait has come to rest
REST_ROUNDING = 1e-15  # of the largest state: a state that should be zero is the rounding of others (1e-37 in a cell's model)
SPARSE_BACKWARD_ERROR = 1e-12  # of the terms of an equation; factors without exchanged rows that miss more are made anew
RADAU_TOLERANCE = 1e-8  # relative to each state; the error of radau5 is a tenth to a thousandth of that
RADAU_NEWTON_STEP = 1e-7  # of the tolerance of radau5; corrections of its stages that small end Newton's method
RADAU_NEWTON_STALLED = 1e-3  # of the tolerance; corrections that small and no longer shrinking are rounding
RADAU_WHOLE_STEP = 1e-10  # of what is left of an interval; a step that is shorter by less is made to end with it
RADAU_SHORTEST_STEP = 1e-13  # of an interval; a tolerance that asks for shorter steps cannot be met

# -- finite differences (black boxes): is a derivative seen, and is that of the model right?

SEEN_ABOVE_NOISE = 4.0  # times the noise of a simulation; a smaller change of the outputs is none that was seen
DERIVATIVE_AGREES = 1e-4  # relative, beside what the difference itself is wrong by; some models make their own by differences
DIFFERENCE_CONFIRMS = 1e-3  # relative; a difference that is wrong by more can confirm nothing
SOLVER_ERROR_HARMLESS = 0.1  # standard errors by which a tenth of the tolerance of a hidden solver may move an estimate
DERIVATIVE_REFUTED = 10.0  # times what a difference is wrong by; a derivative that disagrees with it by more is wrong

# -- FMUs (the first three stand in model_exchange.c as well)

FMU_NEWTON_STEP = 1e-10  # of a state and 1e-6 of its unit; a change of an implicit step's stages below it ends Newton's method
FMU_NEWTON_STALLED = 1e-6  # the same where the change no longer falls: what is left is the rounding of the FMU's rates
FMU_EVENT_TIME = 1e-12  # of a step; how closely the time of a state event is bracketed
GRID_TOLERANCE = 1e-3  # of a step of Co-Simulation; samples that lie beside a grid of equal steps by less are on it, since time
# stamps are rounded
FMU_TOLERANCE = 1e-6  # relative; what the solver inside of a Co-Simulation FMU is first asked for, whose description asks for
# less: many say 1e-4, which is made for looking at curves
FMU_TIGHTEST_TOLERANCE = 1e-12  # relative; beyond it solvers meet rounding instead of a tolerance
CVODE_TOLERANCE = 1e-10  # relative; CVODE is there to check the fixed steps, and must be far better than they are

# -- proofs (set membership)

HULL_SHRINKAGE = 0.95  # of a width; a round of contraction that leaves more of every width has converged, and proves no less
USEFUL_ERROR = 2.0  # radii of a measurement; a flow with a larger error says little of later samples: the box is divided first
LP_ERROR = 0.5  # radii of a measurement; with smaller errors of the flow linear programs are worth their time
LP_SHARP_ERROR = 0.005  # radii of a measurement; with smaller ones they are nearly exact, and dividing wins little more
LP_FEASIBILITY = 1e-10  # half widths of a box; a row of a linear program that is violated by less is met, and proves as much
LP_PIVOT = 1e-11  # of a row of length one; a smaller weight of a row in a basis is rounding, and would not be divided by
KNOWN_RADIUS = 1e-200  # an unknown between bounds that are closer is known: nothing is won by contracting it
INFLATION_RATIO = 1.05  # to which ratio the largest refuted factor on all bounds of errors is found
HYBRID_INFLATION_RATIO = 1.2  # the same along a hybrid record, where each trial goes through all of it

# -- Kalman filters and fleets

LIKELIHOOD_TOLERANCE = 1e-7  # relative; a change of the log-likelihood below it ends the search for noise levels
COVARIANCE_PIVOT = 1e-13  # of a variance; below it a direction is known exactly, or through others (as in filter_common.c)
COVARIANCE_NEGATIVE_PIVOT = -1e-6  # of a variance; rounding makes no pivot of a covariance as negative as this (likewise)
NOISE_ABSENT = 0.5  # logarithms above the lower end of the search; a level that ends lower is none that the data show
FILTER_BOUND_ROUNDING = 1e-12  # relative; a bound that went through a logarithm comes back so close, and is not left
UNSTABLE_GROWTH = 1e-3  # per step, beyond what the model itself grows; a thousand steps make it e-fold
STEP_ERROR = 0.01  # standard deviations of an output; what a filter's steps between two samples may err by
STEP_HALVING_SHIFT = 0.5  # standard deviations; what halved steps move by more is not given by the data alone
FILTER_DIVERGED = 100.0  # mean squared innovation over its foreseen variance: the filter no longer follows the record
FILTER_INCONSISTENT = 0.05  # relative error of the foreseen spread, or correlation of neighbours; less changes no decision
SPREAD_TOLERANCE = 1e-3  # relative; a change of the spread between machines below it moves no outlier
SHARED_STEP_TOLERANCE = 1e-2  # standard errors; for what a fleet shares, where a step costs a pass over all records
SHARED_STALLED_STEP_TOLERANCE = 0.1  # standard errors; the same where no step helps any more
SHARED_COST_ROUNDING = 1e-12  # relative; two sums over thousands of records that differ by less are the same

# -- boundary value problems (boundary/solve_bvp); sizes are typical ones, of each state over the solution

BVP_LAST_STEP_SHARE = 0.1  # of the tolerance: the last Newton step, which leaves its square behind
BVP_LONGEST_LAST_STEP = 1e-7  # typical sizes; and no longer than this: how a layer is held shows only in a solution that is one
BVP_SHORTEST_LAST_STEP = 1e-9  # typical sizes; a last step of this length leaves nothing behind that could be seen
BVP_ROUNDING_STEP = 2.0**-26  # typical sizes, the root of rounding: below it an exact Jacobian shrinks every step but noise
BVP_HIDDEN_STEP = 100.0  # times the rounding of the unknowns: a step that small and no longer shrinking is noise
BVP_EQUATION_ROUNDING = 2.0**-51  # of the terms of an equation; in 44 problems by five schemes mostly a quarter to 0.7 of it
BVP_EXACT_RESIDUAL = 4.0  # times what rounding leaves of an equation: no processor leaves more, and no step is worth less
SEGMENT_NOISE = 1e3 * 2.0**-52  # typical sizes; an error of one segment below it is not worth a cut
SEGMENT_ROUNDING = 8.0  # times the rounding of its equations: the same
ROUGH_ERROR = 0.1  # typical sizes; a larger error tells no more than where to cut
NEGLIGIBLE_STATE = 1e-12  # of the largest state, and of no more than 1: what nowhere exceeds it is taken to be zero
HIDDEN_STATE = 100.0  # times rounding, enlarged by the condition of the equations: a state below it is as good as zero
BADLY_CONDITIONED = 1e8  # typical sizes per unit of a condition, half of all digits; Sec. 6.4 of the thesis
BLOCK_PIVOT = 1e-15  # relative, of a triangle: below it the block is singular to rounding (as in block_elimination.c)
HELD_DIRECTION = 1e-14  # relative, of the ends' singular values: where singular equations are solved, a direction is that stiff
STIFFNESS_DOUBTFUL = 0.5  # relative error of a stiffness from which on a mesh does not know it; found: 0.53 to 2, or below 5e-4
STIFFNESS_UNSURE = 0.25  # the same for a direction that reaches far; found: 0.75 to 1.2
STIFFNESS_ROUNDING = 0.01  # the same by rounding; that of singular equations is 1, the two bounds above need 1/25
FAR_REACH = 100.0  # typical sizes per unit change, or times what another change does
SOFT_DIRECTION = 1e-3  # of the farthest answer: what reaches less far is no direction along which the solution is loose

# -- estimation under a model that may err (boundary/smoothing)

NO_MODEL_ERROR = 1e-13  # of a state's size: what a model may miss by so little is an equality, more would be said by rounding
EM_NOISE_CONVERGED = 0.01  # of an estimated noise std: so much of the way left no longer matters
EM_NOISE_KNOWN = 1.0  # standard error of its logarithm; a size known to a factor of e only is not known
EM_STEP_ROUNDING = 1e-9  # of a noise std; two steps shorter than that differ by rounding
SADDLE_DROP = 3.0  # standard errors; a sum that falls by less beside a root may be that of the same minimum
SADDLE_COST = 0.01  # of the sum; the same: the grid and the boundary value problem are two discretizations
CURVATURE_ROUNDING = 1e-6  # of the largest bend of the cost: what the data do not see may bend down by rounding

# -- likelihood of the innovations (kalman/prediction_error)

SCORING_DECREMENT = 1e-9  # squared standard errors: a scoring step of 3e-5 of one is no longer worth taking
SMALLEST_EIGENVALUE = 1e-12  # of the scaled information: less is no direction that the record determines
SCORING_STALLED = 1e-3  # squared standard errors; where no step helps any more, what is left may be so much
NAIVE_PREDICTION = 1.1  # times what an autoregression leaves: a model that foresees worse is not explained by noise in it
RIVAL_END = 3.84  # 2 dL, the 95 % quantile of chi-square with one degree of freedom; an end that is closer is a rival
FEW_SCORES = 30  # samples' worth of information on an unknown; with fewer, scores say nothing about their own spread
RESTRICTED_NOISE = 0.01  # standard errors of a noise's logarithm; a pass of the search that moves less is the last
ATTENUATION = 0.3  # standard errors by which the place of an input's noise may move an unknown before it matters
NOISE_VANISHED = 1e-3  # of the smallest level that was tried first: a noise below it is none
