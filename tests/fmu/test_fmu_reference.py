"""Claims about FMUs with events, types, arrays, aliases and solvers inside, in the manner of the reference FMUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference_fmus as made
from fmu_makers import fmpy, needs_compiler
from reference_fmus import reference_fmu
from test_fmu_stepping import ball_height

import dynident as di
from dynident.fmu.description import variable_rows
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
T = np.linspace(0.0, 2.0, 41)
ALL = [m for m in vars(made).values() if isinstance(m, made.Reference)]
BOTH = pytest.mark.parametrize("version", [2, 3])
SCHEMES = pytest.mark.parametrize("integrator", ["runge_kutta", "radau", "cvodes"])


def fits_second(model):
    return all(v.type in made.SECOND and not v.shape for v in model.variables)


def run(model, version=3, experiment=None, substeps=1, written=(), values=(), **options):
    fmu = di.FmuModel(reference_fmu(model, version), trusted=True, **options)
    grid = grid_of(fmu, experiment or di.Experiment(T), substeps, True)
    return fmu.simulator(written).run(np.array(values, float), grid, True)[0]


@pytest.mark.parametrize("model", ALL, ids=lambda m: m.name)
@BOTH
def test_fmpy_takes_them_for_valid(model, version):
    from fmpy.validation import validate_fmu

    if version == 2 and not fits_second(model):
        pytest.skip("arrays and other types are of FMI 3.0")
    complaints = validate_fmu(str(reference_fmu(model, version)))
    if version == 3:  # FMPy wants an alias in a list that goes by references, where it has none of its own
        complaints = [c for c in complaints if "also_real_out" not in c]
    assert complaints == []


# events


@BOTH
@SCHEMES
def test_the_ball_follows_the_closed_form(version, integrator):
    """All three integrators are exact for a parabola; 1e-7 is what CVODE's tolerance leaves after five bounces."""
    found = run(made.BALL, version, integrator=integrator)[:, 0]
    assert np.max(np.abs(found - ball_height(T, kick=0.0))) < (1e-7 if integrator == "cvodes" else 1e-9)


@BOTH
def test_the_ball_comes_to_rest(version):
    """An FMU that stops its own bouncing: events become rarer than any step before it, and none remains after."""
    late = np.linspace(0, 5, 51)
    height = run(made.BALL, version, di.Experiment(late))[:, 0]
    assert np.max(np.abs(height[late > 3.5])) < 1e-6


@BOTH
def test_time_events_come_when_they_are_due(version):
    t = np.arange(0, 8.001, 0.25)
    for options in ({}, {"kind": "co_simulation"}):
        assert np.array_equal(run(made.STAIR, version, di.Experiment(t), **options)[:, 0], 1 + np.floor(t))


@BOTH
def test_an_fmu_that_asks_for_the_end_is_obeyed(version):
    with pytest.raises(di.DynidentError, match="at t = 9: the FMU asked to end the simulation"):
        run(made.STAIR, version, di.Experiment(np.arange(0, 12.0, 0.5)))


@BOTH
def test_a_step_of_co_simulation_that_asks_for_the_end_is_obeyed(version, monkeypatch):
    for compiler in ("", "none"):
        if compiler:
            monkeypatch.setenv("DYNIDENT_CC", compiler)
        with pytest.raises(di.DynidentError, match="at t = 9: the FMU asked to end the simulation"):
            run(made.STAIR, version, di.Experiment(np.arange(0, 12.0, 0.5)), kind="co_simulation")


@BOTH
@SCHEMES
def test_step_events_are_asked_for_and_handled(version, integrator):
    angle, turns = run(made.WHEEL, version, integrator=integrator).T
    assert np.max(np.abs(angle + turns - 5 * T)) < 1e-12 and np.all(angle < 1) and turns[-1] >= 9


# solvers


@BOTH
def test_cvodes_confirms_the_fixed_steps(version):
    """The check: van der Pol with mu = 5, where steps must follow fast turns. RK4 doubles its steps until its own
    error is below 1e-7; CVODE's, over eighty restarts, is a few hundred times its tolerance."""
    record = di.Experiment(np.linspace(0, 10, 81))
    by = {name: di.simulate(di.FmuModel(reference_fmu(made.VAN_DER_POL, version), trusted=True, integrator=name),
                            {"mu": 5.0}, record, substeps="auto" if name != "cvodes" else 1).outputs["x0"]
          for name in ("runge_kutta", "radau", "cvodes")}
    assert np.max(np.abs(by["cvodes"] - by["runge_kutta"])) < 1e-5
    assert np.max(np.abs(by["radau"] - by["runge_kutta"])) < 1e-5


@BOTH
def test_a_stiff_fmu_is_refused_with_an_advice_that_works(version):
    record = di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear")
    with pytest.raises(di.ProblemError, match=r'or try FmuModel\("Stiff.fmu", integrator="radau"\) if the model is stiff'):
        di.simulate(di.FmuModel(reference_fmu(made.STIFF, version), trusted=True), {}, record)
    for name in ("radau", "cvodes"):
        found = run(made.STIFF, version, record, integrator=name)[:, 0]
        slope = np.concatenate([[0.0], np.diff(np.sin(3 * T)) / np.diff(T)])
        assert np.max(np.abs(found - np.sin(3 * T) + slope / 1e6)[1:]) < 1e-8  # it lags by 1/rate


@BOTH
def test_a_hidden_euler_solver_moves_the_estimate_unseen_and_model_exchange_does_not(version):
    """The reference Dahlquist: x' = -k x, by explicit Euler with 0.1 s inside. (1 - 0.1 k) = exp(-0.1) at k = 0.952."""
    t = np.arange(0, 3.001, 0.1)
    noise = 2e-3
    y = np.exp(-t) + noise * np.random.default_rng(11).normal(size=t.size)
    record = di.Experiment(t, {}, {"x": y}, {"x": di.Gaussian(noise)})
    found = {}
    for kind in ("co_simulation", "model_exchange"):
        fmu = di.FmuModel(reference_fmu(made.DAHLQUIST, version), kind=kind, trusted=True, tolerance=1e-6)  # kept as it is
        found[kind] = di.identify(di.Problem(fmu, [record], [di.Parameter("k", start=0.5, lower=0, upper=5)]),
                                  di.least_squares(), progress=False)
    hidden, ours = found["co_simulation"], found["model_exchange"]
    low, high = ours.uncertainty.interval("k", 0.9999)
    assert low < 1.0 < high
    euler = (1 - np.exp(-0.1)) / 0.1
    assert abs(hidden.values["k"] - euler) < 4 * hidden.uncertainty.std("k")
    assert abs(hidden.values["k"] - 1.0) > 5 * hidden.uncertainty.std("k")
    assert hidden.cost < 2 * t.size and any("hidden" in note for note in hidden.notes)
    assert any("Model Exchange is used" in n for n in di.FmuModel(reference_fmu(made.DAHLQUIST, version)).notes)


@BOTH
def test_a_solver_with_steps_as_long_as_the_samples_sees_the_input_of_the_way(version):
    """Explicit Euler inside, one step per sample, made when the sample is reached: with the input of its middle."""
    step = 0.05
    t = np.arange(41) * step
    lazy = replace(made.SLOW, name="Lazy", solver_step=step)
    u = np.sin(3 * t)
    found = run(lazy, version, di.Experiment(t, {"u": u}, hold="linear"), kind="co_simulation")[:, 0]
    x, by_hand = 0.0, [0.0]
    for middle in (u[1:] + u[:-1]) / 2:
        x += step * 2.0 * (middle - x)
        by_hand.append(x)
    assert np.max(np.abs(found - by_hand)) < 1e-5  # steps begin a millionth of one late


@BOTH
def test_the_bias_of_van_der_pol_is_a_hundred_times_smaller_by_model_exchange(version):
    """No noise, so all that is left is the solver's error: Euler with 0.01 s inside against checked RK4."""
    t = np.linspace(0, 10, 101)
    exact = di.simulate(di.EquationModel(
        states={"x0": "x1", "x1": "mu*(1 - x0**2)*x1 - x0"}, outputs={"x0": "x0"}, parameters=["mu"]),
        {"mu": 1.0, "x0(0)": 2.0, "x1(0)": 0.0}, di.Experiment(t), substeps=64).outputs["x0"]
    record = di.Experiment(t, {}, {"x0": exact}, {"x0": di.Gaussian(1e-3)})
    bias = {}
    for kind in ("co_simulation", "model_exchange"):
        fmu = di.FmuModel(reference_fmu(made.VAN_DER_POL, version), kind=kind, outputs=["x0"], trusted=True, tolerance=1e-6)
        problem = di.Problem(fmu, [record], [di.Parameter("mu", start=1.2, lower=0.1, upper=5)])
        bias[kind] = abs(di.identify(problem, di.least_squares(), progress=False).values["mu"] - 1.0)
    assert bias["co_simulation"] > 1e-3 and bias["model_exchange"] < bias["co_simulation"] / 100


# types, arrays, aliases


@BOTH
def test_inputs_and_outputs_of_every_type_pass_through(version):
    names = ("real", "real_discrete", "int", "bool", "enum")
    columns = {"real": np.sin(T), "real_discrete": np.floor(3 * T), "int": np.floor(7 * T) - 3,
               "bool": (T > 1).astype(float), "enum": 1.0 + (T > 0.5)}
    record = di.Experiment(T, {f"{n}_in": columns[n] for n in names})
    for kind in ("model_exchange", "co_simulation"):
        found = run(made.FEEDTHROUGH, version, record, kind=kind)
        for j, name in enumerate(names):
            assert np.array_equal(found[:, j], columns[name]), (kind, name)


@BOTH
def test_an_alias_is_the_variable_itself(version):
    fmu = di.FmuModel(reference_fmu(made.FEEDTHROUGH, version), inputs=["real_in"], outputs=["also_real_out", "real_out"],
                      values={"int_param": 1}, trusted=True)
    found = di.simulate(fmu, {"real_tunable_param": 2.0}, di.Experiment(T, {"real_in": T})).outputs
    assert np.array_equal(found["also_real_out"], found["real_out"]) and found["real_out"][0] == 2.0


@BOTH
def test_another_name_of_an_input_is_not_another_input(version):
    twice = replace(made.STIFF, name="TwoNames", variables=(
        *made.STIFF.variables, made.V("u_again", "input", start=0.0, alias="u")))
    assert di.FmuModel(reference_fmu(twice, version)).inputs == ("u",)
    named = di.FmuModel(reference_fmu(twice, version), inputs=["u_again"], integrator="radau", trusted=True)
    found = di.simulate(named, {}, di.Experiment(T, {"u_again": T}, hold="linear")).outputs["fast"]
    assert np.max(np.abs(found - T)) < 1e-5


@BOTH
def test_parameters_that_are_no_real_numbers_are_shown_refused_and_held(version):
    fmu = di.FmuModel(reference_fmu(made.FEEDTHROUGH, version), inputs=["int_in"], outputs=["int_out"], trusted=True)
    shown = {row[0]: row for row in variable_rows(fmu.description, False)}
    assert shown["int_param"][1] in ("Integer", "Int32") and shown["int_param"][-1] == "set"
    assert shown["string_param"][-1] == "" and shown["real_fixed_param"][-1] == "estimated"
    record = di.Experiment(T, {"int_in": 0 * T}, {"int_out": 0 * T})
    with pytest.raises(di.ProblemError) as told:
        di.Problem(fmu, [record], [di.Parameter(n) for n in ("int_param", "bool_param", "string_param", "int_out")])
    said = "\n".join(told.value.faults)
    assert "of type Boolean and cannot be estimated; fix it with FmuModel(..., values={'bool_param': ...})" in said
    assert "of type String and cannot be estimated." in said and "is an output and cannot be estimated" in said
    held = di.FmuModel(fmu.path, inputs=["int_in"], outputs=["int_out"], values={"bool_param": 0, "int_param": 5},
                       trusted=True)
    assert np.all(di.simulate(held, {}, record).outputs["int_out"] == 5)


def test_a_parameter_of_single_precision_is_estimated_with_steps_that_it_can_feel():
    """A step of sqrt(eps) of double precision would not change a Float32 at all."""
    u = np.sin(3 * T)
    y = 2.25 * u + 1e-3 * np.random.default_rng(2).normal(size=T.size)
    fmu = di.FmuModel(reference_fmu(made.SINGLE, 3), inputs=["u"], outputs=["y"], trusted=True)
    record = di.Experiment(T, {"u": u}, {"y": y}, {"y": di.Gaussian(1e-3)}, hold="linear")
    estimate = di.identify(di.Problem(fmu, [record], [di.Parameter("gain")]), di.least_squares(), progress=False)
    exact = float(u @ y / (u @ u))
    assert estimate.converged and abs(estimate.values["gain"] - exact) < 0.1 * estimate.uncertainty.std("gain")


def test_elements_of_arrays_are_inputs_outputs_and_parameters_by_name():
    equations = di.EquationModel(
        states={"a": "A11*a + A12*b + u1", "b": "-3*b + u2"}, outputs={"y1": "a", "y2": "b"}, inputs=["u1", "u2"],
        parameters=["A11", "A12"])
    u = {"1": np.sign(np.sin(3 * T)), "2": np.sign(np.cos(5 * T))}
    values = {"A11": -1.4, "A12": 2.5}
    truth = di.simulate(equations, {**values, "a(0)": 0.5, "b(0)": 0.0},
                        di.Experiment(T, {f"u{k}": v for k, v in u.items()})).outputs
    rng = np.random.default_rng(4)
    noisy = {f"y[{k}]": truth[f"y{k}"] + 1e-3 * rng.normal(size=T.size) for k in "12"}
    record = di.Experiment(T, {f"u[{k}]": v for k, v in u.items()}, noisy, {n: di.Gaussian(1e-3) for n in noisy})
    fmu = di.FmuModel(reference_fmu(made.STATE_SPACE), trusted=True)
    assert fmu.states == ("x[1]", "x[2]") and "A[2,1]" in fmu.parameters
    problem = di.Problem(fmu, [record], [di.Parameter("A[1,1]"), di.Parameter("A[1,2]"),
                                         di.InitialState("x[1]", start=0.0)])
    estimate = di.identify(problem, di.least_squares(), progress=False)
    for name, true in (("A[1,1]", -1.4), ("A[1,2]", 2.5), ("x[1](0)", 0.5)):
        low, high = estimate.uncertainty.interval(name, 0.9999)
        assert low < true < high


def test_fmpy_agrees_about_arrays():
    rows = np.array([(0.0, [1.0, 0.0]), (2.0, [1.0, 0.0])], dtype=[("time", float), ("u", float, (2,))])
    told = fmpy.simulate_fmu(str(reference_fmu(made.STATE_SPACE)), fmi_type="ModelExchange", stop_time=2.0,
                             output_interval=0.05, input=rows, output=["y"], relative_tolerance=1e-9)
    ours = run(made.STATE_SPACE, 3, di.Experiment(T, {"u[1]": 1 + 0 * T, "u[2]": 0 * T}), 4)
    assert np.max(np.abs(told["y"] - ours)) < 1e-6


def test_two_names_of_one_parameter_are_not_two_parameters():
    twice = replace(made.DAHLQUIST, name="Twice", variables=(
        *made.DAHLQUIST.variables, made.V("k_again", "parameter", "fixed", 1.0, initial="exact", alias="k")))
    record = di.Experiment(T, {}, {"x": np.exp(-T)}, {"x": di.Gaussian(1e-3)})
    fmu = di.FmuModel(reference_fmu(twice, 2), trusted=True)
    with pytest.raises(di.ProblemError, match="'k' and 'k_again' are two names of one variable"):
        di.identify(di.Problem(fmu, [record], [di.Parameter("k"), di.Parameter("k_again")]), progress=False)
    assert di.identify(di.Problem(fmu, [record], [di.Parameter("k_again")]), progress=False).converged


# outputs that are not finite

SINGULAR = made.Reference("Singular", (
    made.V("x", "output", start=1.0, initial="exact"), made.V("der_x", of="x"),
    made.V("k", "parameter", "tunable", 1.0, initial="exact"), made.V("efficiency", "output")),
    "static void compute(Model *m) { der_x_ = -k_ * x_; efficiency_ = 1.0 / m->time; }" + made.NO_EVENTS + made.NO_SLOPES)


@BOTH
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", ["model_exchange", "co_simulation"])
def test_an_output_stops_a_fit_by_its_name_and_only_where_it_is_measured(version, compiled, kind, monkeypatch):
    fmu = di.FmuModel(reference_fmu(SINGULAR, version), kind=kind, trusted=True)
    if not compiled:
        monkeypatch.setenv("DYNIDENT_CC", "none")
    x = np.exp(-T) + 0.01 * np.random.default_rng(0).normal(size=T.size)
    late = np.where(T > 0.5, 1 / np.maximum(T, 0.5), np.nan)

    def fitted_to(**outputs):
        return di.identify(di.Problem(fmu, [di.Experiment(T, outputs=outputs)], [di.Parameter("k", start=0.5)]), progress=False)

    if kind == "co_simulation":  # its first step leaves the time at which it is not finite
        fmu = di.FmuModel(reference_fmu(SINGULAR, version), kind=kind, trusted=True, alignment="feedthrough")
    alone, beside = fitted_to(x=x), fitted_to(x=x, efficiency=late)
    assert alone.converged and abs(alone.values["k"] - 1) < 4 * alone.uncertainty.std("k")
    assert beside.converged and np.all(np.isfinite([beside.values["k"], beside.uncertainty.std("k")]))
    if kind == "model_exchange":
        with pytest.raises(di.ProblemError, match=r"failed at t = 0: output 'efficiency' is not finite \(k = 0.5\). Choose"):
            fitted_to(x=x, efficiency=np.ones(T.size))


def test_a_state_that_is_not_finite_is_named():
    with pytest.raises(di.DynidentError, match="state 'x' is no longer finite"):
        run(made.DAHLQUIST, 2, written=("k",), values=(-1e6,))


def test_check_ends_its_sentences_once():
    problem = di.Problem(di.FmuModel(reference_fmu(made.DAHLQUIST, 2), trusted=True), [di.Experiment(T, outputs={"x": T})],
                         [di.Parameter("k", start=-1e6)])
    with pytest.raises(di.ProblemError, match=r"state 'x' is no longer finite\. Choose other start values\.$"):
        di.check(problem)


# directional derivatives


@BOTH
@pytest.mark.parametrize("substeps", [1, 3])
def test_slopes_along_runge_kutta_are_those_of_differences(version, substeps):
    """Exact derivatives of what the scheme computes; a central difference of 1e-5 errs by 1e-10 and rounding/1e-5."""
    fmu = di.FmuModel(reference_fmu(made.SLOW, version), trusted=True)
    grid = grid_of(fmu, di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear"), substeps, True)
    simulator, at, step = fmu.simulator(("rate", "fast")), np.array([2.0, 0.3]), 1e-5
    slopes = simulator.derivatives(at, grid, [0, 1])
    for i, unit in enumerate(np.eye(2)):
        central = (simulator.run(at + step * unit, grid)[0] - simulator.run(at - step * unit, grid)[0]) / (2 * step)
        assert np.max(np.abs(slopes[:, :, i] - central)) < 1e-9


def fitted(model, version, unknowns, true, trusted=True):
    outputs = ["x0"] if model is made.VAN_DER_POL else None
    fmu = di.FmuModel(reference_fmu(model, version), outputs=outputs, trusted=trusted)
    inputs = {n: np.sin(3 * T) for n in fmu.inputs}
    y = di.simulate(fmu, true, di.Experiment(T, inputs, hold="linear")).outputs[fmu.outputs[0]]
    y = y + 0.01 * np.random.default_rng(6).normal(size=T.size)
    record = di.Experiment(T, inputs, {fmu.outputs[0]: y}, {fmu.outputs[0]: di.Gaussian(0.01)}, hold="linear")
    return di.identify(di.Problem(fmu, [record], unknowns), di.least_squares(), progress=False)


@BOTH
@pytest.mark.parametrize("trusted", [True, False])
def test_confirmed_directional_derivatives_replace_differences(version, trusted, monkeypatch):
    unknowns = [di.Parameter("rate", start=1.0, lower=0.1), di.InitialState("fast", start=0.0)]
    own = fitted(made.SLOW, version, unknowns, {"rate": 2.5, "fast(0)": 0.4}, trusted)
    assert any("Derivatives by rate, fast(0) are the model's own" in note for note in own.notes)
    monkeypatch.setattr("dynident.fmu.model.FmuModel._differentiable", lambda *_: False)
    by_differences = fitted(made.SLOW, version, unknowns, {"rate": 2.5, "fast(0)": 0.4}, trusted)
    for name in ("rate", "fast(0)"):
        std = by_differences.uncertainty.std(name)
        assert abs(own.values[name] - by_differences.values[name]) < 1e-4 * std  # ten times what the solver leaves
        assert own.uncertainty.std(name) == pytest.approx(std, rel=1e-3)
    assert own.counts["simulations"] < by_differences.counts["simulations"]


@BOTH
def test_a_derivative_of_zero_with_status_ok_is_found_out(version):
    """As of an official reference FMU: right by states, 0 by the parameter."""
    found = fitted(made.VAN_DER_POL, version, [di.Parameter("mu", start=1.5), di.InitialState("x0", start=1.8)],
                   {"mu": 1.0, "x0(0)": 2.0})
    assert any("own derivatives by mu do not give the derivative of the simulation" in note for note in found.notes)
    assert any("Derivatives by x0(0) are the model's own" in note for note in found.notes)
    for name, true in (("mu", 1.0), ("x0(0)", 2.0)):
        low, high = found.uncertainty.interval(name, 0.9999)
        assert low < true < high


def test_derivatives_that_an_fmu_refuses_are_replaced_and_said():
    liar = replace(made.DAHLQUIST, name="Liar", slopes=True)
    found = fitted(liar, 2, [di.Parameter("k", start=0.5)], {"k": 1.0})
    assert any("offers directional derivatives but does not give them" in n and "returned 'error'" in n for n in found.notes)
    assert abs(found.values["k"] - 1.0) < 5 * found.uncertainty.std("k")


def test_without_a_compiler_the_fmu_gives_the_same_derivatives(monkeypatch):
    def fit():
        return fitted(made.SLOW, 3, [di.Parameter("rate", start=1.0, lower=0.1)], {"rate": 2.5})

    compiled = fit()
    monkeypatch.setenv("DYNIDENT_CC", "none")
    found = fit()
    assert found.values == compiled.values and found.notes == compiled.notes
    assert any("Derivatives by rate are the model's own" in note for note in found.notes)
