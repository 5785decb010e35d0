"""Claims about the calling loop: samples are aligned, orders are kept, C and Python give the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import BALL, LAG, LAG_VALUES, bouncing_ball, exported, fmpy, needs_compiler, tampered

import dynident as di
from dynident.fmu.simulation_spec import equal_steps
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
T = np.linspace(0.0, 4.0, 81)
KINDS = ("model_exchange", "co_simulation")


def record(hold="linear"):
    return di.Experiment(T, {"u": np.sin(3 * T)}, hold=hold)


def run(path, substeps=1, experiment=None, written=(), values=(), **options):
    model = di.FmuModel(path, trusted=options.pop("trusted", True), **options)
    simulator = model.simulator(written)
    grid = grid_of(model, experiment or record(), substeps, True)
    outputs, states = simulator.run(np.array(values, float), grid, True)
    return outputs, states, simulator


def exact_lag(hold):
    """The lag by its own exact solution for an input that moves linearly between samples."""
    return di.simulate(LAG, {**LAG_VALUES, "x(0)": 0.0}, record(hold), substeps=64).outputs["y"]


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize(("kind", "alignment"), [*((kind, "sampled") for kind in KINDS), ("co_simulation", "feedthrough")])
def test_feedthrough_belongs_to_the_input_of_the_same_sample(version, alignment, kind):
    outputs, *_ = run(exported(version=version), kind=kind, alignment=alignment)
    assert np.max(np.abs(outputs[:, 1] - np.sin(3 * T))) <= 1e-15


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_co_simulation_of_dynamics_is_of_second_order(version):
    errors = [np.max(np.abs(run(exported(version=version), n, kind="co_simulation")[0][:, 0] - exact_lag("linear")))
              for n in (1, 2, 4, 8)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(orders > 1.9) and np.all(orders < 2.1)


def test_fmpy_delays_what_we_align():
    """The reason for a loop of our own: the same FMU by fmpy's simulation lags by a sample."""
    rows = np.array(list(zip(T, np.sin(3 * T), strict=True)), dtype=[("time", float), ("u", float)])
    told = fmpy.simulate_fmu(str(exported()), fmi_type="CoSimulation", stop_time=4.0, step_size=T[1],
                             output_interval=T[1], input=rows, output=["through"])
    delayed, right = np.abs(told["through"][1:] - np.sin(3 * T[:-1])), np.abs(told["through"][1:] - np.sin(3 * T[1:]))
    assert np.max(delayed) < 1e-6 < np.max(right)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_model_exchange_is_of_fourth_order_and_agrees_with_our_own_integrator(version):
    values = {**LAG_VALUES, "x(0)": 0.0}
    for n in (1, 2):
        ours = di.simulate(LAG, values, record(), substeps=n).outputs["y"]
        assert np.max(np.abs(run(exported(version=version), n)[0][:, 0] - ours)) <= 1e-14


def test_stiff_scheme_is_of_third_order():
    errors = [np.max(np.abs(run(exported(), n, integrator="radau")[0][:, 0] - exact_lag("linear"))) for n in (1, 2, 4)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 3) < 0.1)


def test_stiff_scheme_stays_calm_where_runge_kutta_explodes():
    fast = exported(LAG, {"gain": 2.0, "tau": 1e-4})
    calm = run(fast, 1, integrator="radau")[0][:, 0]
    assert np.max(np.abs(calm[5:] - 2 * np.sin(3 * T[5:]))) < 0.01
    with pytest.raises(di.DynidentError, match="no longer finite"):
        run(fast, 1)


def ball_height(t, g=9.81, e=0.7, kick=1.0):
    """Closed form with bounces, and a kick at 1.5 s."""
    begin, h, v, out, kicked = 0.0, 1.0, 0.0, np.zeros_like(t), False
    for i, now in enumerate(t):
        while True:
            hit = begin + (v + np.sqrt(v * v + 2 * g * h)) / g
            event = min(hit, np.inf if kicked else 1.5)
            if event > now:
                break
            d = event - begin
            h, v, begin = h + v * d - g * d * d / 2, v - g * d, event
            if event == hit:
                h, v = 0.0, -e * v
            else:
                v, kicked = v + kick, True
        out[i] = h + v * (now - begin) - g * (now - begin) ** 2 / 2
    return out


def test_state_and_time_events_follow_the_closed_form():
    t = np.linspace(0, 1.9, 39)
    heights, _, _ = run(bouncing_ball(), 1, di.Experiment(t))
    assert np.max(np.abs(heights[:, 0] - ball_height(t))) < 1e-9


def test_parameters_of_a_model_with_events_are_found():
    t = np.linspace(0, 1.9, 191)
    y = ball_height(t, e=0.72) + 1e-3 * np.random.default_rng(1).normal(size=t.size)
    run_ = di.Experiment(t, {}, {"height": y}, {"height": di.Gaussian(1e-3)})
    problem = di.Problem(di.FmuModel(bouncing_ball(), trusted=True), [run_], [
        di.Parameter("restitution", lower=0, upper=1)])
    estimate = di.identify(problem, di.least_squares(), progress=False)
    low, high = estimate.uncertainty.interval("restitution", 0.9999)
    assert low < 0.72 < high and BALL.parameters == ("g", "restitution", "kick")


def test_a_reset_that_forgets_nothing_is_found_out():
    sloppy = tampered("sloppy", {"EXPORT int fmi2Reset(Instance c) { model_reset(M); return OK; }":
                                 "EXPORT int fmi2Reset(Instance c) { (void)c; return OK; }"})
    model = di.FmuModel(sloppy, kind="co_simulation", trusted=True)
    simulator, grid = model.simulator(("gain",)), grid_of(model, record(), 1, True)
    simulator.run(np.array([5.0]), grid)  # what this leaves behind must not show in what follows
    for _ in range(3):
        again = simulator.run(np.array([2.0]), grid)[0]
        assert np.array_equal(again, run(exported(), kind="co_simulation")[0])
    assert any("does not repeat itself after a reset" in note for note in simulator.notes)


def test_an_fmu_of_moods_is_reported():
    """Two fresh instances at equal values differ: no reset can be blamed for it."""
    moody = tampered("moody", {"  memcpy(m->v, START, sizeof m->v);":
                               "  static int made;\n  memcpy(m->v, START, sizeof m->v); m->v[0] += 1e-6 * made++;"})
    model = di.FmuModel(moody, trusted=True)
    simulator, grid = model.simulator(()), grid_of(model, record(), 1, True)
    simulator.run(np.zeros(0), grid)
    simulator.run(np.zeros(0), grid)
    assert any("from fresh instances at equal values" in note for note in simulator.notes)


def test_a_state_that_is_measured_under_its_own_name_is_read_twice():
    outputs, states, _ = run(exported(), outputs=["x", "y"])
    assert np.all(np.isfinite(states)) and np.array_equal(outputs[:, 0], states[:, 0])
    assert np.array_equal(outputs[:, 0], outputs[:, 1])


def test_a_value_that_does_not_take_is_reported():
    deaf = tampered("deaf", {"  m->v[r] = value;": "  m->v[r] = r == AT_P ? 2.0 : value;"})
    assert any("'gain' was set to 3 but reads back as 2" in note
               for note in run(deaf, written=("gain",), values=(3.0,))[2].notes)


def test_an_fmu_that_wants_equal_steps_gets_them():
    strict = tampered("strict", {"static int model_advance(Model *m, double h) {": """static double model_length;
static int model_advance(Model *m, double h) {
  if (model_length == 0) model_length = h;
  if (fabs(h - model_length) > 1e-12) return 0;"""},
                      {'VariableCommunicationStepSize="true"': 'VariableCommunicationStepSize="false"'})
    outputs, *_ = run(strict, 1, kind="co_simulation")
    assert np.max(np.abs(outputs[1:, 1] - np.sin(3 * T[1:]))) <= 1e-15


EVEN = {'canHandleVariableCommunicationStepSize="true"': 'canHandleVariableCommunicationStepSize="false"'}
EQUAL_AND_CLOSED_UP = {"M->v[AT_T] = now;\n": """static double last, length;
  if (now < last) length = 0;  /* a new simulation */
  if (length > 0 && (fabs(now - last) > 1e-9 || fabs(h - length) > 1e-12)) return ERROR;
  last = now + h; length = h; M->v[AT_T] = now;
"""}


@pytest.mark.parametrize("compiled", [True, False])
def test_two_sampling_rates_get_the_step_that_meets_both(compiled, monkeypatch):
    """0.1 s and 0.07 s have 0.01 s in common; each step begins where the last one ended and none differs."""
    t = np.concatenate([np.arange(20) * 0.1, 2 + np.arange(20) * 0.07])
    course = di.Experiment(t, {"u": np.sin(3 * t)}, hold="linear")
    exact = di.simulate(LAG, {**LAG_VALUES, "x(0)": 0.0}, course, substeps=64).outputs["y"]
    strict = tampered("strict", EQUAL_AND_CLOSED_UP, EVEN)
    if not compiled:
        monkeypatch.setenv("DYNIDENT_CC", "none")
    errors = [np.max(np.abs(run(strict, n, course, kind="co_simulation")[0][:, 0] - exact)) for n in (1, 2, 4)]
    assert errors[0] < 0.005  # one step of 0.01 s per sample has the input of its end, which is 6e-4, for 5 to 7 samples
    assert np.all(np.abs(np.log2(np.array(errors[:-1]) / errors[1:]) - 2) < 0.1)  # halving the steps does halve them


def test_samples_on_no_common_grid_are_refused_beforehand():
    t = np.sort(np.append(0, np.random.default_rng(0).uniform(0, 10, 200)))
    data = di.Experiment(t, {"u": np.sin(t)}, {"y": np.sin(t)})
    fmu = di.FmuModel(tampered("even", {}, EVEN), kind="co_simulation", outputs=["y"], trusted=True)
    for deed in (lambda: di.simulate(fmu, {}, data), lambda: di.identify(di.Problem(fmu, [data], [di.Parameter("gain")]))):
        with pytest.raises(di.ProblemError, match=r"even.fmu takes steps of one length only.*or use its model exchange"):
            deed()


@pytest.mark.parametrize(("time", "parts"), [
    (np.arange(50) * 0.05, 1), (1.7e9 + np.arange(50) * 0.01, 1), (np.round(np.arange(50) / 30, 6), 1),
    (np.array([0.0, 0.3, 0.5, 0.6, 1.1]), 1), (np.array([0.0, 0.3, 0.5, 1.1]), 2), (np.array([0.0]), 0)])
def test_the_longest_common_step_is_found(time, parts):
    found = equal_steps(time)
    assert found is not None
    if parts:
        assert found.length == pytest.approx(np.min(np.diff(time)) / parts, rel=1e-3)
        assert np.max(np.abs(np.cumsum(found.counts) * found.length - (time[1:] - time[0]))) <= 1e-3 * found.length


@pytest.mark.parametrize("compiled", [True, False])
def test_every_step_has_a_length_however_late_it_is(compiled, monkeypatch):
    """Unix time in double precision counts in steps of 2.4e-7 s; a millionth of a sample of 10 ms is none of them."""
    strict = tampered("strict", {"M->v[AT_T] = now;\n": "if (!(h > 0)) return ERROR; M->v[AT_T] = now;\n"})
    if not compiled:
        monkeypatch.setenv("DYNIDENT_CC", "none")
    early = np.arange(100) * 0.01
    outputs = [run(strict, 1, di.Experiment(begin + early, {"u": np.sin(3 * early)}), kind="co_simulation")[0]
               for begin in (0.0, 1.7e9)]
    assert np.max(np.abs(outputs[1] - outputs[0])) < 2.4e-7 * 10  # no signal here moves faster than 6 / s


@pytest.mark.parametrize("level", [1.0, 24.0, 230.0, 1e4])
def test_stiff_scheme_begins_at_nothing(level, monkeypatch):
    """A circuit of 10 us from 0 to its voltage within one step: only the last digits of it are rounding."""
    fast = exported(LAG, {"gain": 2.0, "tau": 1e-5})
    course = di.Experiment(T, {"u": np.full(T.size, level)})
    settled = run(fast, 1, course, integrator="radau")[0][:, 0]
    assert np.max(np.abs(settled[2:] - 2 * level)) < 1e-6 * level  # L-stable: 2e-4 of the way is left after one step
    monkeypatch.setenv("DYNIDENT_CC", "none")
    assert run(fast, 1, course, integrator="radau")[0][:, 0].tobytes() == settled.tobytes()


def test_the_stop_time_is_never_passed():
    strict = tampered("strict", {
        "(void)td; (void)tol; (void)sd; (void)stop;\n  return model_set(M, AT_T, start)":
            "model_stop = sd ? stop : 1e300;\n  return model_set(M, AT_T, start)",
        "static int model_advance(Model *m, double h) {": """static double model_stop;
static int model_advance(Model *m, double h) {
  if (m->v[AT_T] + h > model_stop) return 0;"""})
    uneven = di.Experiment(np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, 200)), {"u": np.zeros(200)})
    for substeps in (1, 3, 7):
        outputs, *_ = run(strict, substeps, uneven, kind="co_simulation")  # a step too far is an error of the FMU
        assert outputs.shape[0] == 200 and np.all(np.isfinite(outputs))


def talking(deed):
    """An FMU that uses its logger in a step."""
    return tampered("chatty", {
        "#define M ((Model *)c)": """#define M ((Model *)c)
typedef void (*Log)(void *, const char *, int, const char *, const char *, ...);
static Log log_message;""",
        "(void)name; (void)type; (void)where; (void)functions; (void)visible; (void)logging;":
            "log_message = *(Log *)functions;",
        "  (void)keep;\n  M->v[AT_T] = now;": f"""
  {deed}
  M->v[AT_T] = now;"""})


def test_the_messages_of_an_fmu_are_kept_and_said():
    chatty = talking('if (now > 2) { log_message(0, "x", 3, "error", "pressure %d bar is too high", 12); return ERROR; }')
    with pytest.raises(di.DynidentError, match=r"a step returned 'error'. It says: pressure 12 bar is too high"):
        run(chatty, kind="co_simulation")


@pytest.mark.parametrize("trusted", [True, False])
def test_warnings_of_an_fmu_come_into_the_report_once(trusted):
    chatty = talking('if (now > 2) log_message(0, "x", 1, "warning", "valve %s is hot", "V7");')
    u = np.sign(np.sin(2 * T))
    y = di.simulate(LAG, {**LAG_VALUES, "x(0)": 0.0}, di.Experiment(T, {"u": u})).outputs["y"]
    y = y + 0.01 * np.random.default_rng(1).normal(size=T.size)
    seen = di.Experiment(T, {"u": u}, {"y": y}, {"y": di.Gaussian(0.01)})
    problem = di.Problem(di.FmuModel(chatty, kind="co_simulation", trusted=trusted), [seen], [di.Parameter("gain", start=1.0)])
    estimate = di.identify(problem, di.least_squares(), progress=False)
    assert [note for note in estimate.notes if "says" in note] == ["chatty.fmu says: valve V7 is hot"]


def test_names_are_checked_with_their_neighbours():
    with pytest.raises(di.ProblemError) as told:
        di.FmuModel(exported(), inputs=["y"], outputs=["thruogh"], values={"der(x)": 1.0, "nonsense": 2.0})
    said = str(told.value)
    assert "'thruogh' is not a variable of lag.fmu. Near: through" in said and "'y' is a output" in said
    assert "'der(x)' (local, continuous) cannot be set" in said and "'nonsense' is not a variable" in said


def test_an_input_left_unset_is_refused_unless_it_is_given_a_value():
    bare = di.Experiment(T, {}, {"y": np.zeros(81)})
    with pytest.raises(di.ProblemError, match="input 'u' is not in the record"):
        di.Problem(di.FmuModel(exported()), [bare], [di.Parameter("gain")])
    held = di.FmuModel(exported(), values={"u": 1.0}, trusted=True)
    assert di.simulate(held, {}, bare).outputs["y"][-1] == pytest.approx(2 * (1 - np.exp(-8)), abs=1e-6)


def test_start_bounds_and_units_come_from_the_fmu():
    from dynident.fmu.export import export_fmu
    from dynident.problem.model import NominalValue

    path = export_fmu(LAG, exported().with_name("bounded.fmu"), LAG_VALUES, given={"tau": NominalValue(0.5, 0.1, 3.0, "s")})
    problem = di.Problem(di.FmuModel(path), [di.Experiment(T, {"u": T}, {"y": T})],
                         [di.Parameter("tau"), di.Parameter("gain", start=1.0, lower=0.0)])
    tau, gain = problem.parameters
    assert (tau.start, tau.lower, tau.upper, tau.unit) == (0.5, 0.1, 3.0, "s")
    assert (gain.start, gain.lower, gain.upper) == (1.0, 0.0, np.inf)
