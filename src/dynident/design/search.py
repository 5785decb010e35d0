"""Search: several starts, limits tightened until a finer simulation keeps them, and the plan that comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynident.design.asked import shape_faults
from dynident.design.course import Course
from dynident.design.criteria import Criterion
from dynident.design.finer import Finer, uses
from dynident.design.knowledge import Knowledge, knowledge_of
from dynident.design.limits import Limit, input_size
from dynident.design.modes import Stay
from dynident.design.plan import Plan, PlannedRecord, Use, promise
from dynident.design.program import Program, Scenario
from dynident.design.scenarios import scenarios_of
from dynident.design.signals import Signal
from dynident.design.stage import Teller
from dynident.design.trial import Trial
from dynident.design.widths import predicted_widths
from dynident.errors import NotConverged, ProblemError, SimulationDiverged
from dynident.models.equations import EquationModel
from dynident.problem.noise import Bounded, Noise
from dynident.problem.problem import Problem
from dynident.solvers.slsqp import FEASIBLE, DenseResult, minimise

FIRST_MARGIN = 1e-6  # of a limit; what the solver's own tolerance needs
MORE_MARGIN = 1.2  # times what a finer simulation found too much
ROUNDS = 15  # of tightening
SCREENED = 6  # draws per start; the best are searched from
LEAVING = 1.0  # what it costs a draw to leave its limits by as much as they are wide, on the average
SAME_COST = 1e-3  # relative; starts that end this close found the same
DRAWS = 20  # tries to find a start at which the machine can be simulated
TRIED_SHARE = (0.8, 0.4, 0.2, 0.1, 0.05)  # of a start that blows up or leaves everything: smaller ones


class Search:
    """One design: what is asked, and the parts made of it."""

    def __init__(self, stay: Stay, signals: Mapping[str, Signal], criterion: Criterion,
                 limits: Sequence[Limit], duration: float | tuple[float, float] | None, sample_time: float | None,
                 initial: Mapping[str, float] | None, parameters: tuple[str, ...], records: int, robust: str,
                 box: dict[str, tuple[float, float]], samples: int, use_records: bool,
                 amplitude: Mapping[str, float] | float | None, seed: int, teller: Teller | None = None):
        problem = stay.problem
        self.stay, self.known, self.criterion, self.limits = stay, stay.known, criterion, tuple(limits)
        assert isinstance(problem.model, EquationModel)  # design_input takes no other
        self.rng, self.model, self.teller = np.random.default_rng(seed), problem.model, teller or Teller()
        last = problem.experiments[-1]
        time = np.asarray(last.time, float)
        self.step = float(f"{np.median(np.diff(time)):.9g}") if sample_time is None else float(sample_time)
        span = duration if isinstance(duration, tuple) else (float(time[-1] - time[0]) if duration is None else duration,) * 2
        if span[1] < 2 * self.step:
            raise ProblemError(f"a record of {span[1]:g} s with a sample every {self.step:g} s has fewer than three samples; "
                               "give a longer duration, or a shorter sample_time.")
        self.span, self.free_duration = span, span[0] < span[1]
        self.signals = dict(signals)
        self.holds = {name: s.hold for name, s in signals.items()}
        self.initial = dict(last.initial if initial is None else initial)
        self.records, self.use_records = records, use_records
        self.sizes = {name: self._size(name, amplitude) for name, s in signals.items()}
        self.wanted_names = parameters
        self.robust = robust
        self._prepare(robust, box, samples)

    def _size(self, name: str, amplitude: Mapping[str, float] | float | None) -> tuple[float, float]:
        """Middle and half width of an input."""
        said = amplitude.get(name) if isinstance(amplitude, Mapping) else amplitude
        known = input_size(self.model, self.limits, name)
        if said is not None:
            return (known[0] if known else 0.0), float(said)
        if known is None and self.signals[name].names and not self.signals[name].keeps():
            raise ProblemError(f"Nothing limits the input '{name}', and a larger one always tells more. Give a limit "
                               f"such as \"abs({name}) <= 1\", or amplitude=... where other limits hold it.")
        return known if known else (0.0, 1.0)

    def _prepare(self, robust: str, box: dict[str, tuple[float, float]], samples: int) -> None:
        reference = self.span[1]
        count = round(reference / self.step) + 1
        faults = shape_faults(self.signals, count, self.step)
        if faults:
            raise ProblemError(faults)
        self.knowledge = self._knowledge(count)
        self.wanted = self._wanted()
        self.course = Course(self.signals, count, (count - 1) * self.step, self.free_duration)
        self.scenarios = scenarios_of(self.knowledge, robust, box, samples, self.wanted, self.rng)
        binding = self.knowledge.problem.bindings[self.knowledge.earlier]
        self.open_initial = tuple(int(i) for i in np.flatnonzero(binding.initial_unknown >= 0))
        self.free = tuple(int(i) for i in np.flatnonzero(binding.parameter_unknown >= 0))
        watched = tuple(limit.expression for limit in self.limits if limit.input_rate is None)
        self.trial = Trial(self.model, self.course, self.open_initial, self.free, watched)
        self.coefficient_sizes, self.box = self._coefficients()

    def _knowledge(self, count: int) -> Knowledge:
        return knowledge_of(self.known, self.stay.problem, self.records, count, self.step, self.holds, self.initial,
                            self.use_records)

    def _wanted(self) -> np.ndarray:
        names = self.knowledge.names
        if not self.wanted_names:
            return np.array([i for i, u in enumerate(self.knowledge.problem.unknowns) if not u.initial], int)
        missing = [n for n in self.wanted_names if n not in names]
        if missing:
            raise ProblemError(f"'{missing[0]}' is not an unknown of the problem; known: {', '.join(names)}.")
        return np.array([names.index(n) for n in self.wanted_names])

    def _coefficients(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """A typical size of each coefficient, and bounds in units of it."""
        sizes: list[float] = []
        low: list[float] = []
        high: list[float] = []
        for name, signal in self.signals.items():
            middle, half = self.sizes[name]
            a, b = signal.bounds(middle, half)
            size = np.where(np.isfinite(b - a), (b - a) / 2, abs(middle) + half)
            sizes, low, high = [*sizes, *size], [*low, *(a / size)], [*high, *(b / size)]
        if self.free_duration:
            sizes, low, high = [*sizes, self.span[1]], [*low, self.span[0] / self.span[1]], [*high, 1.0]
        return np.array(sizes, float), (np.array(low, float), np.array(high, float))

    # starts

    def start(self) -> np.ndarray:
        """Coefficients of all records at which the machine can be simulated, in units of their sizes."""
        for _ in range(DRAWS):
            drawn = [self._draw() for _ in range(self.records)]
            for share in (1.0, *TRIED_SHARE):
                c = [self._shrunk(own, share) for own in drawn]
                try:
                    for r, own in enumerate(c):
                        self.trial.run(own, *self._believed(r), sensitivities=False)
                    return np.concatenate(c) / np.tile(self.coefficient_sizes, self.records)
                except SimulationDiverged:
                    continue
        raise ProblemError("No input was found at which the machine can be simulated. Give a smaller amplitude, or a "
                           "shorter duration.")

    def screened(self, program: Program, first: np.ndarray, count: int) -> list[np.ndarray]:
        """The most promising of many draws: low cost, limits kept or nearly so."""
        low, high, _ = program.bounds()
        drawn = []
        for w in [first, *(self.start() for _ in range(SCREENED * count - 1))]:
            try:
                at = program.ask(np.append(w, 0.0) if program.worst else w)
            except SimulationDiverged:
                continue
            rows = at.constraints[-len(self.scenarios):] if program.worst else None
            cost = float(np.max(rows)) if rows is not None else at.value
            over = np.maximum(at.constraints - high, low - at.constraints)[:at.constraints.size - program.worst * len(
                self.scenarios)]
            drawn.append((cost + LEAVING * float(np.mean(np.maximum(over, 0.0))) if over.size else cost, w))
        return [w for _, w in sorted(drawn, key=lambda each: each[0])[:count]]

    def _draw(self) -> np.ndarray:
        drawn = []
        for name, signal in self.signals.items():
            drawn.append(signal.draw(*self.sizes[name], self.rng))
        if self.free_duration:
            drawn.append(np.array([self.rng.uniform(*self.span)]))
        return np.concatenate([*drawn, np.zeros(0)])

    def _shrunk(self, c: np.ndarray, share: float) -> np.ndarray:
        shrunk = c * share
        if self.free_duration:
            shrunk[-1] = c[-1]
        return shrunk

    def _believed(self, record: int) -> tuple[np.ndarray, np.ndarray]:
        k = self.knowledge
        return k.problem.values_in(k.values, k.earlier + record)

    # the search itself

    def program(self, limits: Sequence[Limit], factor: float = 1.0, places: Sequence[np.ndarray] = ()) -> Program:
        return Program(self.trial, self.knowledge, self.criterion, limits, self.scenarios, self.coefficient_sizes,
                       self.wanted, self.robust == "worst", factor, places)

    def solve(self, program: Program, start: np.ndarray, iterations: int) -> DenseResult:
        low, high = (np.tile(b, self.records) for b in self.box)
        if program.worst:
            low, high = np.append(low, -np.inf), np.append(high, np.inf)
            start = np.append(start, 0.0)
            start[-1] = float(np.max(program.ask(start).constraints[-len(self.scenarios):]))
        a, b, _ = program.bounds()
        return minimise(self.teller.watching(program.ask), start, (low, high), (a, b), iterations)

    def best(self, starts: int, iterations: int) -> tuple[DenseResult, Program, DenseResult, list[DenseResult]]:
        """The best of several starts that keeps all limits also between the samples, where it began, and all others."""
        first = self.start()
        self.trial.refined(self._of(first)[0], *self._believed(0))
        self.limits = self._sized(first)
        narrow = [limit.narrowed(FIRST_MARGIN * limit.size) for limit in self.limits]
        program = self.program(narrow)
        if not program.worst:  # a cost in the user's units may be of any size
            program = self.program(narrow, 1 / max(abs(program.ask(first).value), 1.0))
        outcomes, begins = [], list(self.screened(program, first, starts))
        self.teller.starts = len(begins)
        for self.teller.start, begin in enumerate(begins, 1):
            outcomes.append(self.solve(program, begin, iterations))
        self.teller.tightening = True
        fit = [o for o in outcomes if o.feasible and np.isfinite(o.value)]
        if not fit:
            raise NotConverged(self.unmet(program, min(outcomes, key=lambda o: float(np.max(o.excess)))))
        best, refused = None, None
        for candidate in sorted(fit, key=lambda o: o.value):
            if best is not None and candidate.value >= best[0].value:
                break  # tightening never makes a cost smaller
            try:
                found = self.tightened(candidate, program, narrow, iterations)
            except NotConverged as reason:
                refused = reason
                continue
            best = (*found, candidate) if best is None or found[0].value < best[0].value else best
        if best is None:
            raise refused or NotConverged("No input was found.")
        return (*best, outcomes)

    def _sized(self, w: np.ndarray) -> tuple[Limit, ...]:
        """Limits of zero tell no size; what the machine does at a start does. At the first sample no input has acted."""
        ran = self.trial.run(self._of(w)[0], *self._believed(0))
        sized, faults, k = [], [], 0
        for limit in self.limits:
            if limit.input_rate is not None:
                sized.append(limit)
                continue
            fixed = not np.any(ran.d_watched[0, k])
            limit = replace(limit, typical=float(np.max(np.abs(ran.watched[:, k]))) or 1.0, from_start=not fixed)
            if fixed and not limit.at_end and limit.excess(ran.watched[:1, k]) > FIRST_MARGIN * limit.size:
                faults.append(f"limit '{limit.text}': the initial state breaks it already ({ran.watched[0, k]:.4g}).")
            sized.append(limit)
            k += 1
        if faults:
            raise ProblemError(faults)
        return tuple(sized)

    def tightened(self, outcome: DenseResult, program: Program, limits: list[Limit], iterations: int
                  ) -> tuple[DenseResult, Program]:
        """Ask for the limits also where a finer simulation finds them left, and search again from there."""
        for _ in range(ROUNDS):
            peaks = self.peaks(outcome)
            over = [max((excess for _, excess in found), default=0.0) for found in peaks]
            if max(over, default=0.0) <= 0:
                return outcome, program
            places, limits = self.sharpened(program, limits, peaks)
            if any(limit.lower > limit.upper for limit in limits):
                break
            program = self.program(limits, program.factor, places)
            outcome = self.solve(program, outcome.point[:program.sizes.size], iterations)
            if not outcome.feasible:
                raise NotConverged(self.unmet(program, outcome))
        left = {limit.text: max((e / limit.size for _, e in found), default=0.0)
                for limit, found in zip(self.limits, self.peaks(outcome), strict=True)}
        worst = max(left, key=lambda text: left[text])
        raise NotConverged(f"'{worst}' cannot be kept between the samples: in a simulation at ten times finer steps it "
                           f"is left by {left[worst]:.2g} of its size. Sample faster, take a smoother signal, or relax "
                           "it.")

    def sharpened(self, program: Program, limits: list[Limit], peaks: list[list[tuple[float, float]]]
                  ) -> tuple[list[np.ndarray], list[Limit]]:
        """Samples beside each peak join; where they are there already, the limit itself moves in."""
        places, closer, k = list(program.places), [], 0
        for limit, found in zip(limits, peaks, strict=True):
            if limit.input_rate is not None:
                closer.append(limit)
                continue
            beside = {int(n) for at, _ in found for n in (np.floor(at), np.ceil(at))} if not limit.at_end else set()
            beside -= set() if limit.from_start else {0}
            new = beside - set(places[k].tolist())
            known = [e for at, e in found if not {int(np.floor(at)), int(np.ceil(at))} & new]
            closer.append(limit.narrowed(MORE_MARGIN * max(known, default=0.0)))
            places[k] = np.union1d(places[k], sorted(new)).astype(int)
            k += 1
        return places, closer

    def peaks(self, outcome: DenseResult) -> list[list[tuple[float, float]]]:
        """Per limit: where (in samples) it is left at ten times finer steps, and by how much; the worst of each run."""
        found: list[list[tuple[float, float]]] = [[] for _ in self.limits]
        for (r, c), scenario in itertools.product(enumerate(self._of(outcome.point)), self.scenarios):
            finer = self._finer(c, scenario, r)
            for own, limit in zip(found, self.limits, strict=True):
                own += finer.peaks(limit)
        return found

    def _of(self, w: np.ndarray) -> np.ndarray:
        count = self.records * self.coefficient_sizes.size
        return (w[:count] * np.tile(self.coefficient_sizes, self.records)).reshape(self.records, -1)

    def _finer(self, c: np.ndarray, scenario: Scenario, record: int) -> Finer:
        k = self.knowledge
        p, x0 = k.problem.values_in(scenario.values, k.earlier + record)
        return Finer(self.model, self.course, c, p, x0)

    def unmet(self, program: Program, outcome: DenseResult) -> str:
        """Which limits stood in the way."""
        labels = program.bounds()[2]
        worst: dict[str, float] = {}
        for label, excess in zip(labels, outcome.excess, strict=True):
            if label and excess > FEASIBLE:  # less is rounding
                size = next((limit.size for limit in self.limits if limit.text == label), 1.0)
                worst[label] = max(worst.get(label, 0.0), float(excess) * size)
        listed = ", ".join(f"'{label}' (by {excess:.3g})" for label, excess in
                           sorted(worst.items(), key=lambda item: -item[1]))
        if not listed:
            return (f"No input of this shape was found: the search ended where its cost is no number ({outcome.status}). "
                    "Try other starts (seed), a smaller amplitude, or a shorter duration.")
        return (f"No input of this shape was found that meets all limits. The best one leaves {listed}. Relax it, "
                "allow more time, or give the signal more coefficients.")

    # what comes of it

    def finished(self, found: tuple[DenseResult, Program, DenseResult, list[DenseResult]], seconds: float) -> Plan:
        outcome, program, begun, outcomes = found
        c = self._of(outcome.point)
        duration = self.course.duration(c[0])
        if self.free_duration:  # on the true grid of samples
            self.course = Course(self.signals, round(duration / self.step) + 1, duration, False)
            c = c[:, :-1]
            self.knowledge = self._knowledge(self.course.samples)
            steps = self.trial.substeps
            self.trial = Trial(self.model, self.course, self.open_initial, self.free, self.trial.whole.watched, steps)
        rows, records = [], []
        for r, own in enumerate(c):
            ran = self.trial.run(own, *self._believed(r), sensitivities=False)
            placed = np.zeros((*ran.outputs.shape, len(self.knowledge.names)))
            placed[:, :, self.program(self.limits).columns[r]] = ran.sensitivities
            rows.append((placed / self.knowledge.std[:, None]).reshape(-1, len(self.knowledge.names)))
            records.append(self._record(r, own))
        k = self.knowledge
        before, after = k.judged(), k.judged(np.vstack(rows))
        near = begun.value + SAME_COST * max(1.0, abs(begun.value))
        agree = sum(o.feasible and o.value <= near for o in outcomes)
        found_by = f"Best of {len(outcomes)} starts, found by {agree} of them." if len(outcomes) > 1 else "From one start."
        status = (found_by if outcome.converged else
                  f"The search was stopped before it settled ({outcome.status}); this is the best input so far.")
        widths, taken_up = self._widths(np.vstack(rows)), self._uses(c)
        return Plan(
            records=tuple(records), criterion=self.criterion.name, cost=outcome.value / program.factor,
            values=promise(k.names, k.values, self.wanted), std_before=promise(k.names, before.std, self.wanted),
            std_after=promise(k.names, after.std, self.wanted), noise_std=self._noise_std(), limits=taken_up,
            converged=outcome.converged, status=status, notes=(*k.notes, *self._notes(after.std), *self.stay.grazed(taken_up)),
            width_before=widths[0], width_after=widths[1],
            counts={"starts": len(outcomes), "evaluations": sum(o.evaluations for o in outcomes),
                    "coefficients": c.size, "scenarios": len(self.scenarios)},
            times={"search": seconds}, units={u.name: u.unit for u in k.problem.unknowns})

    def _notes(self, std: np.ndarray) -> list[str]:
        notes = []
        lost = [self.knowledge.names[i] for i in self.wanted if not np.isfinite(std[i])]
        if lost:
            notes.append(f"Even with this input {', '.join(lost)} cannot be determined; a signal with more "
                         "coefficients or wider limits may help.")
        if self.robust:
            notes.append(f"Planned for the {'worst' if self.robust == 'worst' else 'average'} of "
                         f"{len(self.scenarios)} sets of values; the standard deviations are those at the values "
                         "believed now.")
        return notes

    def _noise_std(self) -> dict[str, float]:
        return {n: float(s) for n, s in zip(self.model.outputs, self.knowledge.std, strict=True) if np.isfinite(s)}

    def _uses(self, c: np.ndarray) -> tuple[Use, ...]:
        everywhere = [self._finer(own, s, r) for (r, own), s in itertools.product(enumerate(c), self.scenarios)]
        return uses(self.limits, everywhere)

    def _record(self, r: int, c: np.ndarray) -> PlannedRecord:
        k = self.knowledge
        trial = k.problem.experiments[k.earlier + r]
        finer = self._finer(c, Scenario(k.values), r)
        self.stay.refuse_leaving(finer)
        time, states, outputs = finer.at_samples()
        sampled = self.course.sampled(c)
        inputs = {n: sampled.values[:, i] for i, n in enumerate(self.signals)}
        return PlannedRecord(trial.name, time, inputs, states, outputs, self.holds, self.initial, self._noise(),
                             dict(zip(self.course.names, (float(v) for v in c), strict=False)), self.stay.mode)

    def _noise(self) -> dict[str, Noise]:
        problem = self.known if isinstance(self.known, Problem) else self.known.problem
        k = self.knowledge.problem.experiments[-1]
        noise: dict[str, Noise] = {}
        for name, level in k.noise.items():
            last = problem.noise_of(name)[-1]
            noise[name] = Bounded(float(np.mean(np.asarray(last.radius, float)))) if isinstance(last, Bounded) else level
        return noise

    def _widths(self, rows: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
        problem = self.known if isinstance(self.known, Problem) else self.known.problem
        if not any(isinstance(n, Bounded) for name in problem.model.outputs for n in problem.noise_of(name)):
            return {}, {}
        return predicted_widths(self.knowledge, rows, self.wanted)
