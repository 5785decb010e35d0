"""What stands in the table of results, and how many digits does an uncertainty support?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynident._util.prefixes import quantity
from dynident.estimate.estimate import Estimate, Validation
from dynident.methods.noise_estimation import signal_std
from dynident.problem.noise import Gaussian, LogNormal, is_weighed_by_model, stated_bound
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import given_std
from dynident.statistics.uncertainty import INTERVAL_ENDS, LEVEL
from dynident.statistics.verdict import Grade
from dynident.tolerances import RESIDUAL_ROUNDING

OPEN = "unidentifiable"
WITHHELD = "withheld"  # the verdict says that no interval would mean anything
HELD = "fixed"
HISSING = ("s", "x", "ch", "sh")  # nouns that end so take -es in the plural
SUPPORTED = 2  # significant digits of the uncertainty that are printed; the value ends at the same place
MOST_DIGITS = 9  # of a value; beyond it nobody reads on, and the uncertainty is printed on its own
ONLY_FLOOR = 1.001  # times the smallest noise that a fit takes for its weights: that and not the residuals' own
LONE_DIGITS = 6  # of a value that has no uncertainty
VAGUE_DIGITS = 3  # of a value that the data do not determine
PLAIN_FROM, PLAIN_BELOW = 1e-3, 1e6  # magnitudes written without an exponent
SYMMETRIC_WITHIN = 0.05  # arms that differ by less than this are one ± number


@dataclass(frozen=True)
class ResultRow:
    """One quantity, as it is printed; `low` and `high` are infinite where the data set no limit."""

    name: str
    value: str
    interval: str
    unit: str
    remark: str
    held: bool
    number: float
    low: float
    high: float

    @property
    def open(self) -> bool:
        return not (math.isfinite(self.low) and math.isfinite(self.high))

    @property
    def without_interval(self) -> bool:
        """Whether nothing is said of how far the number may be off."""
        return not self.held and (math.isnan(self.low) or math.isnan(self.high))


def result_rows(estimate: Estimate) -> list[ResultRow]:
    """The unknowns in their own order, then what was held."""
    in_model = estimate.problem.model.units  # where the declaration is silent
    units = {u.name: u.unit or in_model.get(u.quantity, "") for u in estimate.problem.unknowns}
    found = [_found(estimate, name, units[name]) for name in estimate.problem.names]
    held: dict[tuple[str, float], list[str]] = {}
    for name in (name for name in estimate.values if name not in units):
        held.setdefault((_quantity(estimate, name), float(estimate.values[name])), []).append(name)
    return found + [_held(estimate, *quantity, names) for quantity, names in held.items()]


def interval_heading(estimate: Estimate) -> str:
    """What the column of intervals is called."""
    return estimate.uncertainty.heading


def convergence(estimate: Estimate) -> tuple[str, str]:
    """'Converged' or 'NOT CONVERGED', and what follows; the status may say the word itself, it is not said twice.

    An uncertainty may bring a word of its own, as one that refutes does.
    """
    word = estimate.uncertainty.status_word or ("Converged" if estimate.converged else "NOT CONVERGED")
    status = estimate.status.strip()
    begins_with_it = status.lower().startswith(word.lower())
    rest = status[len(word):] if begins_with_it else status
    goes_on = begins_with_it and estimate.converged and rest[:1] == " "  # "Converged after 8 iterations"
    rest = rest.strip(" :;,.-")
    if not rest:
        return word + ("." if estimate.converged else ""), ""
    if goes_on:
        return word, f"{rest}."
    return word + ("." if estimate.converged else ""), rest[0].upper() + rest[1:] + "."


def fits(estimate: Estimate) -> dict[str, float]:
    """Fit in percent per output, as far as the estimate holds it."""
    prefix = "fit_"
    return {key[len(prefix):]: value for key, value in estimate.statistics.items() if key.startswith(prefix)}


def judged_fit(validation: Validation) -> tuple[int, Mapping[str, float]]:
    """The number of samples ahead over which a record was judged, and the fit there; 0: over the whole record."""
    judged = next((k for k in (10, 1) if validation.predicted and k in validation.ahead), 0)
    return judged, validation.ahead[judged] if judged else validation.fit


@dataclass(frozen=True)
class NoiseLevel:
    """The error of one measured output: a number as text, and where it comes from."""

    size: str
    origin: str
    estimated: bool = False  # from the residuals alone

    def __str__(self) -> str:
        return f"{self.size} ({self.origin})"


def disturbance_levels(estimate: Estimate) -> dict[str, NoiseLevel]:
    """What errs or acts besides the sensors of the outputs: sensors of inputs, and what disturbs inputs and states."""
    problem, levels = estimate.problem, {}
    units = {**problem.model.units, **{n: u for e in problem.experiments for n, u in e.units.items()}}

    def level(std: float, unit: str, given: bool, per: str = "") -> NoiseLevel:
        return NoiseLevel(f"{quantity(std, unit, VAGUE_DIGITS)}{per}", f"std, {'given' if given else 'estimated'}", not given)

    for name, std in estimate.input_noise.items():
        own = [e.input_noise[name].std for e in problem.experiments if name in e.input_noise]
        levels[f"sensor of {name}"] = level(std, units.get(name, ""), all(each is not None for each in own))
    for name, std in estimate.process_noise.items():
        given = name in problem.process_noise and problem.process_noise[name].std is not None
        acts_on_input = name in problem.model.inputs
        levels[f"behind {name}" if acts_on_input else f"on {name}"] = level(
            std, units.get(name, ""), given, "" if acts_on_input else " in a second")
    return levels


def noise_levels(estimate: Estimate) -> dict[str, NoiseLevel]:
    """Per measured output what is known of its error."""
    levels = {}
    units = {**estimate.problem.model.units, **{n: u for e in estimate.problem.experiments for n, u in e.units.items()}}
    for output in estimate.problem.model.outputs:
        unit = units.get(output, "")
        assumed = estimate.problem.noise_of(output)
        if not assumed:
            continue
        bounds = [bound for bound in map(stated_bound, assumed) if bound is not None]
        if bounds and output not in estimate.noise_std:
            radii = np.concatenate([np.atleast_1d(bound) for bound in bounds])
            levels[output] = NoiseLevel(f"± {_range(radii, unit)}", "guaranteed bound")
        elif output in estimate.noise_std:
            if by_model := [noise for noise in assumed if is_weighed_by_model(noise)]:
                levels[output] = _level_by_model(by_model, estimate.noise_std[output], unit)
                continue
            estimated = any(isinstance(noise, Gaussian) and noise.std is None for noise in assumed)
            known = [np.atleast_1d(noise.std) for noise in assumed if isinstance(noise, Gaussian) and noise.std is not None]
            given = _range(np.concatenate(known), unit) if known else ""
            size = quantity(estimate.noise_std[output], unit, VAGUE_DIGITS)
            if estimated and (left := _rms_below(estimate, output)) is not None:
                levels[output] = NoiseLevel(f"below {size}", f"rms of the residuals {quantity(left, unit, VAGUE_DIGITS)}, "
                                                            "rounding", True)
            elif estimated:
                origin = "rms of the residuals, maybe not of noise alone" if taken_from_errors(estimate) else "std, estimated"
                levels[output] = NoiseLevel(size, f"{origin}; {given} where given" if given else origin, not given)
            else:
                levels[output] = NoiseLevel(given or size, "std, given")
    return levels


def taken_from_errors(estimate: Estimate) -> bool:
    """Whether what was estimated as noise may hold an error of the model: residuals of a simulation, graded as more."""
    simulated = estimate.filtered is None and estimate.smoothed is None
    return simulated and estimate.converged and estimate.verdict.exceeds_noise


def _rms_below(estimate: Estimate, output: str) -> float | None:
    """Root mean square of what is left over, where that is rounding and smaller than any noise that a fit tells apart."""
    if estimate.filtered is not None:
        return None
    left = np.concatenate([np.zeros(0), *(own[output][np.isfinite(own[output])] for e, own in zip(
        estimate.problem.experiments, estimate.residuals, strict=True) if output in own and given_std(e, output) is None)])
    rms = float(np.sqrt(np.mean(left**2))) if left.size else np.inf
    least = RESIDUAL_ROUNDING * signal_std(estimate.problem, output)
    return rms if rms < estimate.noise_std[output] <= ONLY_FLOOR * least else None


def _level_by_model(noises: Sequence[Any], mean: float, unit: str) -> NoiseLevel:
    """Of errors whose size follows from the model: what a fit found, and by which rule."""
    found = [np.atleast_1d(noise.evaluated) for noise in noises if noise.evaluated is not None]
    rules = dict.fromkeys(f"{'log-normal, ' * isinstance(noise, LogNormal)}{noise.std if np.ndim(noise.std) == 0 else 'given'}"
                          for noise in noises)
    size = _range(np.concatenate(found), unit) if found else quantity(mean, unit, VAGUE_DIGITS)
    return NoiseLevel(size, f"std, by {'; '.join(rules)}")


def _range(sizes: np.ndarray, unit: str) -> str:
    """One number, or from the smallest to the largest."""
    return " to ".join(dict.fromkeys(quantity(float(end), unit, VAGUE_DIGITS) for end in (np.nanmin(sizes), np.nanmax(sizes))))


def extent(estimate: Estimate) -> str:
    """How much was asked of how much: unknowns, measured values, records."""
    problem = estimate.problem
    return (f"{counted(len(problem.names), 'unknown')} from {counted(problem.measured_values, 'measured value')} in "
            f"{counted(len(problem.experiments), 'experiment')}")


def method_name(estimate: Estimate) -> str:
    """The method by the name under which it is asked for."""
    return str(_options(estimate).get("kind") or type(estimate.method).__name__)


def method_options(estimate: Estimate) -> str:
    """The method as it would be written, with its options."""
    options = {name: value for name, value in _options(estimate).items() if name != "kind"}
    return f"{method_name(estimate)}({', '.join(f'{name}={value!r}' for name, value in options.items())})"


def _options(estimate: Estimate) -> dict[str, Any]:
    return dict(estimate.method.options())


def counted(number: int, noun: str) -> str:
    """'1 unknown', '12,000 samples': a count in words; the noun arrives in its singular.

    Thousands are set apart by commas, since lines are broken at every kind of space.
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith(HISSING) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def interval_meaning(estimate: Estimate) -> str:
    """What the printed intervals promise, or why none are printed."""
    if not estimate.verdict.withholds_intervals:
        return estimate.uncertainty.meaning
    which = "describes the record roughly" if estimate.verdict.grade is Grade.ROUGH else "does not describe the record"
    return f"Intervals are withheld: they would hold for a right model, and this one {which}."


def _found(estimate: Estimate, name: str, unit: str) -> ResultRow:
    number = float(estimate.values[name])
    low, high = (float(end) for end in estimate.uncertainty.interval(name, LEVEL))
    value, interval = written(number, low, high)
    if estimate.verdict.withholds_intervals and math.isfinite(low) and math.isfinite(high):
        value, interval, low, high = format_number(number, VAGUE_DIGITS), WITHHELD, math.nan, math.nan
    remark = estimate.uncertainty.remark(name)
    if interval == WITHHELD and remark.startswith(INTERVAL_ENDS):
        remark = ""  # it would speak of what is not printed
    return ResultRow(name, value, interval, unit, "" if remark == interval else remark, False, number, low, high)


def written(number: float, low: float, high: float) -> tuple[str, str]:
    if math.isnan(number):  # of an empty set
        return "none", "none"
    if math.isnan(low) or math.isnan(high):
        return format_number(number, VAGUE_DIGITS), "not known"
    if math.isinf(low) and math.isinf(high):
        return format_number(number, VAGUE_DIGITS), OPEN
    if math.isinf(high):
        return format_number(number, VAGUE_DIGITS), f"at least {format_number(low, VAGUE_DIGITS)}"
    if math.isinf(low):
        return format_number(number, VAGUE_DIGITS), f"at most {format_number(high, VAGUE_DIGITS)}"
    return with_interval(number, low, high)


def _quantity(estimate: Estimate, name: str) -> str:
    """A printed name without the experiment that it belongs to: 'v(0)' for 'v(0)[run 2]'."""
    ends = [f"[{experiment.name}]" for experiment in estimate.problem.experiments]
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), name)


def _held(estimate: Estimate, quantity: str, number: float, names: list[str]) -> ResultRow:
    """What is held at the same value in several experiments takes one row."""
    name, remark = (names[0], "") if len(names) == 1 else (quantity, f"in {len(names)} experiments")
    units = {(f"{p.state}(0)" if isinstance(p, InitialState) else p.name): p.unit
             for p in estimate.problem.parameters if isinstance(p, (Parameter, InitialState))}
    unit = units.get(quantity) or estimate.problem.model.units.get(quantity.removesuffix("(0)"), "")
    return ResultRow(name, format_number(number), HELD, unit, remark, True, number, number, number)


def format_number(value: float, digits: int = LONE_DIGITS) -> str:
    """A number that stands without an uncertainty."""
    if not math.isfinite(value):
        return str(value)
    return f"{value + 0.0:.{digits}g}"  # + 0.0 turns -0.0 into 0.0


def with_interval(value: float, low: float, high: float) -> tuple[str, str]:
    """A value and its finite interval, both rounded to the same place: ('50.12', '± 0.34') or [low, high]."""
    arms = [abs(value - low), abs(high - value)]
    narrow = min((arm for arm in arms if arm > 0), default=0.0)
    if narrow == 0.0:
        return format_number(value), "± 0"
    rounding = 2 * math.ulp(max(abs(low), abs(high)))
    symmetric = (low < value < high and max(arms) - narrow <= SYMMETRIC_WITHIN * narrow) or max(arms) <= rounding
    exponent = _shared_exponent(value, low, high)
    places = _places(narrow) + exponent
    largest = max(abs(value), abs(low), abs(high)) / 10.0**exponent
    if places + math.floor(math.log10(largest)) + 1 > MOST_DIGITS:
        ends = f"[{format_number(low, MOST_DIGITS)}, {format_number(high, MOST_DIGITS)}]"
        interval = f"± {max(arms):.1e}" if symmetric else ends
        return f"{value:#.{MOST_DIGITS}g}", interval
    written = [_fixed(number, places, exponent) for number in (value, low, high)]
    if symmetric:
        return written[0], f"± {_fixed(max(arms), places, exponent)}"
    return written[0], f"[{written[1]}, {written[2]}]"


def aligned(numbers: Sequence[str]) -> list[str]:
    """The same numbers, padded so that their decimal points stand below each other."""
    def ahead(number: str) -> int:
        mantissa = number.partition("e")[0]
        return len(mantissa.partition(".")[0])

    left = max((ahead(number) for number in numbers), default=0)
    padded = [" " * (left - ahead(number)) + number for number in numbers]
    width = max((len(number) for number in padded), default=0)
    return [number.ljust(width) for number in padded]


def seconds(duration: float) -> str:
    """A duration in words that fit its size."""
    if duration < 1e-3:
        return f"{1e6 * duration:.0f} µs"
    if duration < 1.0:
        return f"{1e3 * duration:.0f} ms"
    if duration < 120.0:
        return f"{duration:.1f} s"
    return f"{duration / 60:.1f} min"


def percent(share: float) -> str:
    """A fit in percent; close to 100 it keeps the digits that tell good from perfect."""
    if not math.isfinite(share):
        return "not defined"
    places = 1 if share < 99 else 2
    text = f"{share:.{places}f}"
    return f"{'above 99.99' if text == '100.00' and share < 100 else text} %"


def _places(width: float) -> int:
    """Decimal places that keep SUPPORTED significant digits of a positive width; negative: tens, hundreds."""
    rounded = float(f"{width:.{SUPPORTED - 1}e}")  # 0.0996 counts as 0.10
    return SUPPORTED - 1 - math.floor(math.log10(rounded))


def _shared_exponent(*numbers: float) -> int:
    largest = max(abs(number) for number in numbers)
    if largest == 0 or PLAIN_FROM <= largest < PLAIN_BELOW:
        return 0
    return math.floor(math.log10(largest))


def _fixed(number: float, places: int, exponent: int) -> str:
    scaled = round(number / 10.0**exponent, places) + 0.0
    if exponent and scaled == 0:  # a power of ten behind a zero says nothing; a number that is none is written by itself
        return format_number(number, VAGUE_DIGITS)
    suffix = f"e{exponent:+03d}" if exponent else ""
    return f"{scaled:.{max(places, 0)}f}{suffix}"
