"""Plants with noise where it acts: in the sensor of the input, behind it, in the model, or nowhere; and exact likelihoods."""

from __future__ import annotations

import numpy as np

import dynident as di

KINDS = ("none", "sensor", "behind", "process")
FINE = 8  # steps of the simulation between two samples


def simulate(rng, rate, x, u, step, disturbance):
    """(samples, states) under an input that is held over a sample; `disturbance` per root of a second and state."""
    course, h = [], step / FINE
    for held in u:
        course.append(x)
        for _ in range(FINE):
            k1 = rate(x, held)
            k2 = rate(x + h / 2 * k1, held)
            k3 = rate(x + h / 2 * k2, held)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3, held)) + disturbance * np.sqrt(h) * rng.normal(size=x.size)
    return np.array(course)


def record(model, truth, rng, rate, x0, u, step, kind, input_std, process, output_std, start=1.6):
    """The problem of one record, noise said where it is."""
    (name,), output, disturbed = model.inputs, model.outputs[0], np.array([process.get(s, 0.0) for s in model.states])
    true_input = u + input_std * rng.normal(size=u.size) * (kind == "behind")
    states = simulate(rng, rate, x0, true_input, step, disturbed * (kind == "process"))
    seen = u + input_std * rng.normal(size=u.size) * (kind == "sensor")
    noise = {output: di.Gaussian()} | ({name: di.Gaussian(input_std)} if kind == "sensor" else {})
    disturbances = {"behind": {name: di.Gaussian()}, "process": {s: di.Gaussian() for s in process}}.get(kind, {})
    run = di.Experiment(step * np.arange(u.size), {name: seen},
                        {output: states[:, 0] + output_std * rng.normal(size=u.size)}, noise)
    return di.Problem(model, [run], [di.Parameter(n, start * v) for n, v in truth.items()], process_noise=disturbances)


def tank(seed, kind, samples=400):
    """A tank with an outlet; its flow is the input."""
    truth = {"c": 0.05, "a": 0.08}
    rng = np.random.default_rng(seed)
    model = di.EquationModel(states={"h": "c*u - a*sqrt(h)"}, inputs=["u"], outputs=["h"])
    return record(model, truth, rng, lambda x, u: truth["c"] * u - truth["a"] * np.sqrt(np.maximum(x, 1e-6)), np.array([1.5]),
                  np.abs(2 + 0.8 * rng.normal(size=samples)) + 0.2, 1.0, kind, 0.3, {"h": 0.01}, 0.002), truth


def oscillator(seed, kind, samples=600):
    """A mass on a spring, pushed by a force."""
    truth = {"k": 4.0, "d": 0.6, "b": 2.0}
    rng = np.random.default_rng(seed)
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + b*u"}, inputs=["u"], outputs=["x"])
    u = np.repeat(rng.choice([-1.0, 1.0], samples // 8 + 1), 8)[:samples] + 0.3 * rng.normal(size=samples)
    return record(model, truth, rng, lambda x, u: np.array([x[1], -4.0 * x[0] - 0.6 * x[1] + 2.0 * u]), np.zeros(2), u, 0.05,
                  kind, 0.4, {"v": 0.3}, 0.02), truth


def linear_problem(hold, feedthrough, initial=None, samples=40):
    """Unequal sampling, missing values, noise in both states, in the sensor of the input and in the outputs."""
    rng = np.random.default_rng(0)
    outputs = {"x": "x", "f": "v + b*u"} if feedthrough else {"x": "x"}
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + b*u"}, inputs=["u"], outputs=outputs)
    measured = {name: rng.normal(size=samples) for name in outputs}
    measured["x"][5:9] = np.nan
    run = di.Experiment(np.cumsum(rng.uniform(0.05, 0.1, samples)), {"u": rng.normal(size=samples)}, measured,
                        {"x": di.Gaussian(), "u": di.Gaussian(0.4)}, hold=hold, initial=initial or {})
    return di.Problem(model, [run], [di.Parameter("k", 2.0, log=True), di.Parameter("d", 0.3), di.Parameter("b", 1.1)],
                      process_noise={"v": di.Gaussian(), "x": di.Gaussian(0.2)})


def dense_likelihood(problem, values, process, input_std, output_std, transition, noise_of):
    """1/2 (r' C^-1 r + log det C) of all measured values at once: no filter, one covariance matrix of the whole record.

    `transition(h)` is that of states, input and slope; `noise_of(h)` gives factors whose squares add up to the noise of a step.
    """
    run = problem.experiments[0]
    time, u, linear = run.time, run.inputs["u"], run.hold["u"] == "linear"
    usual = np.median(np.diff(time))
    counts = np.ceil(np.diff(time) / usual - 1e-6).astype(int)
    width = len(noise_of(usual)[0].T) * len(noise_of(usual))
    mean, rows, place = np.array([values["x(0)"], values["v(0)"]]), np.zeros((2, u.size + width * counts.sum())), u.size
    seen = []
    for k in range(u.size):
        for m in range(counts[k - 1] if k else 0):
            gap, share = time[k] - time[k - 1], m / counts[k - 1]
            h = gap / counts[k - 1]
            M = transition(h)
            late = M[:2, 2] * share + M[:2, 3] / gap if linear else np.zeros(2)
            early = M[:2, 2] - late
            mean = M[:2, :2] @ mean + early * u[k - 1] + late * u[k]
            rows = M[:2, :2] @ rows
            rows[:, k - 1] += early
            rows[:, k] += late
            for factor in noise_of(h):
                rows[:, place:place + factor.shape[1]] += factor
                place += factor.shape[1]
        for name in problem.model.outputs:
            if np.isfinite(y := run.outputs[name][k]):
                row, expected = rows[0 if name == "x" else 1].copy(), mean[0 if name == "x" else 1]
                if name == "f":
                    row[k] += values["b"]
                    expected = expected + values["b"] * u[k]
                seen.append((y - expected, row, output_std[name] ** 2))
    r, rows, variance = (np.array(part) for part in zip(*seen, strict=True))
    drawn = np.concatenate([np.full(u.size, input_std**2), np.ones(rows.shape[1] - u.size)])
    C = (rows * drawn) @ rows.T + np.diag(variance)
    return 0.5 * r @ np.linalg.solve(C, r) + 0.5 * np.linalg.slogdet(C)[1]
