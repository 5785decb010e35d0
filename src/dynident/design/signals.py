"""Excitation signals: which shapes can an input have, and which coefficients make one of them?

A signal is a formula u(tau, duration, coefficients), where `tau` is normalised time: 0 at the beginning of the record, 1 at
its end. It says where its coefficients start, between which bounds they lie, and which constraints of its own they obey.
See the manual, methods/design.

Examples
--------
>>> import dynident as di
>>> di.signals.PiecewiseConstant(pieces=4).names
('level0', 'level1', 'level2', 'level3')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import casadi as ca
import numpy as np

from dynident.errors import ProblemError
from dynident.tolerances import SLSQP_FEASIBILITY

HOLDS = ("linear", "zero")


@dataclass(frozen=True)
class SignalConstraint:
    """What the shape of a signal itself asks for: lower <= formula <= upper, at the end or everywhere."""

    name: str
    formula: Callable[[ca.SX, ca.SX, ca.SX], ca.SX]  # (tau, duration, coefficients)
    lower: float
    upper: float
    everywhere: bool = True


@runtime_checkable
class Signal(Protocol):
    """One input as a formula of a few coefficients."""

    @property
    def hold(self) -> str:
        """How the controller moves it between samples: "linear" or "zero"."""
        ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX: ...

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        """Of the coefficients, for an input within centre +- half_width; infinite where the constraints alone decide."""
        ...

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        """Coefficients to start from."""
        ...

    def constraints(self) -> Sequence[SignalConstraint]: ...


class _LinearSignal:
    """Signals that are linear in their coefficients, which are of about the size of the input: sums of basis functions."""

    hold: str

    def __post_init__(self) -> None:
        _check_hold(self.hold)

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        count = len(self.names)
        return np.full(count, -np.inf), np.full(count, np.inf)

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        return centre + half_width * rng.uniform(-0.8, 0.8, len(self.names))

    def constraints(self) -> Sequence[SignalConstraint]:
        return ()


@dataclass(frozen=True)
class Bernstein(_LinearSignal):
    """A polynomial as Bernstein coefficients, eqs. (16) to (18) of the input design paper."""

    order: int = 5
    hold: str = "linear"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"b{k}" for k in range(_at_least(1, self.order, "order") + 1))

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        m = self.order
        return _sum(c[k] * math.comb(m, k) * tau**k * (1 - tau) ** (m - k) for k in range(m + 1))


@dataclass(frozen=True)
class PiecewiseConstant(_LinearSignal):
    """Levels of equal length; the controller holds each sample."""

    pieces: int = 20
    hold: str = "zero"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"level{k}" for k in range(_at_least(1, self.pieces, "pieces")))

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        edge = tau * self.pieces + 1e-9  # a sample on an edge belongs to the piece that begins there
        return _sum(c[k] * (_since(edge, k) if k else 1.0) * (1 - _since(edge, k + 1) if k < self.pieces - 1 else 1.0)
                    for k in range(self.pieces))

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.pieces, centre - half_width), np.full(self.pieces, centre + half_width)


@dataclass(frozen=True)
class PiecewiseLinear(_LinearSignal):
    """Straight lines between corners at equal distances."""

    pieces: int = 20
    hold: str = "linear"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"corner{k}" for k in range(_at_least(1, self.pieces, "pieces") + 1))

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        return _sum(c[k] * ca.fmax(0, 1 - ca.fabs(tau * self.pieces - k)) for k in range(self.pieces + 1))

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.pieces + 1, centre - half_width), np.full(self.pieces + 1, centre + half_width)


@dataclass(frozen=True)
class Multisine(_LinearSignal):
    """A Fourier sum over the record: cosines and sines of 1, 2, ... periods, without a mean unless asked for."""

    harmonics: int = 6
    mean: bool = False
    hold: str = "linear"

    @property
    def names(self) -> tuple[str, ...]:
        waves = range(1, _at_least(1, self.harmonics, "harmonics") + 1)
        return (*("mean",) * self.mean, *(f"cos{k}" for k in waves), *(f"sin{k}" for k in waves))

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        first, n = int(self.mean), self.harmonics
        turn = 2 * np.pi * tau
        waves = _sum(c[first + k - 1] * ca.cos(k * turn) + c[first + n + k - 1] * ca.sin(k * turn)
                     for k in range(1, n + 1))
        return waves + (c[0] if self.mean else 0)

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        drawn = half_width * rng.uniform(-1, 1, len(self.names)) / np.sqrt(len(self.names))
        return np.append(centre, drawn[1:]) if self.mean else drawn


@dataclass(frozen=True)
class Chirp:
    """A sine whose frequency runs from one value to another: offset, amplitude, phase and both frequencies are free."""

    lowest: float  # Hz
    highest: float  # Hz
    hold: str = "linear"

    def __post_init__(self) -> None:
        _check_hold(self.hold)
        if not 0 < self.lowest < self.highest < np.inf:
            raise ProblemError(f"Chirp({self.lowest}, {self.highest}): give two frequencies in Hz, the lower one "
                               "first.")

    @property
    def names(self) -> tuple[str, ...]:
        return ("offset", "amplitude", "phase", "first_frequency", "last_frequency")

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        turns = duration * (c[3] * tau + (c[4] - c[3]) * tau**2 / 2)
        return c[0] + c[1] * ca.sin(c[2] + 2 * np.pi * turns)

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        return (np.array([centre - half_width, 0, -np.pi, self.lowest, self.lowest]),
                np.array([centre + half_width, half_width, np.pi, self.highest, self.highest]))

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        first, last = np.exp(rng.uniform(np.log(self.lowest), np.log(self.highest), 2))
        return np.array([centre, 0.7 * half_width, rng.uniform(-1, 1), first, last])

    def constraints(self) -> Sequence[SignalConstraint]:
        return ()


@dataclass(frozen=True)
class Binary:
    """Two levels with free switching times: a pseudo-random binary signal (PRBS) whose switches are chosen, not drawn.

    The controller holds each sample; a switch within a sample period is the mean of both levels in it, as far as it goes.
    """

    switches: int = 12
    hold: str = "zero"
    period: float = 0.0  # a sample period as a share of the record; set by the design

    def __post_init__(self) -> None:
        _check_hold(self.hold)
        _at_least(1, self.switches, "switches")

    @property
    def names(self) -> tuple[str, ...]:
        return ("first_level", "second_level", *(f"switch{k}" for k in range(self.switches)))

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        """Switching times are in normalised time."""
        width = self.period or 1e-9
        passed = _sum((-1) ** k * ca.fmin(1, ca.fmax(0, (tau - c[2 + k]) / width + 1)) for k in range(self.switches))
        return c[0] + (c[1] - c[0]) * passed

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = centre - half_width, centre + half_width
        return (np.array([low, low, *[0.0] * self.switches]), np.array([high, high, *[1.0] * self.switches]))

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        side = rng.choice([-1.0, 1.0])
        return np.array([centre - side * half_width, centre + side * half_width, *np.sort(rng.uniform(0, 1, self.switches))])

    def constraints(self) -> Sequence[SignalConstraint]:
        """Switches keep their order, by as much as the search may miss a constraint."""
        def gap(k: int) -> Callable[[ca.SX, ca.SX, ca.SX], ca.SX]:
            return lambda tau, duration, c: c[3 + k] - c[2 + k]

        return tuple(SignalConstraint(f"switch{k} before switch{k + 1}", gap(k), SLSQP_FEASIBILITY, 1.0, everywhere=False)
                     for k in range(self.switches - 1))

    def sampled(self, samples: int) -> Binary:
        """The same for a record of so many samples."""
        return replace(self, period=1 / (samples - 1))


@dataclass(frozen=True)
class MotionProfile:
    """A motion from rest to rest with limited jerk: stretches of constant jerk, integrated up to what the input is.

    `input_is`: "position", "velocity" or "acceleration". Limits on jerk, acceleration and velocity hold everywhere.
    """

    jerk: float
    acceleration: float
    velocity: float
    pieces: int = 12
    input_is: str = "velocity"
    hold: str = "linear"

    def __post_init__(self) -> None:
        _check_hold(self.hold)
        if self.input_is not in ORDERS:
            raise ProblemError(f"input_is = '{self.input_is}'; use one of {', '.join(ORDERS)}.")
        if not all(0 < limit < np.inf for limit in (self.jerk, self.acceleration, self.velocity)):
            raise ProblemError("a motion profile needs positive limits of jerk, acceleration and velocity.")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"jerk{k}" for k in range(_at_least(3, self.pieces, "pieces")))

    def integral(self, order: int) -> Callable[[ca.SX, ca.SX, ca.SX], ca.SX]:
        """The jerk integrated `order` times from rest."""
        def formula(tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
            total = ca.SX(0)
            for k in range(self.pieces):
                begin, end = k / self.pieces, (k + 1) / self.pieces
                total += c[k] * (ca.fmax(0, tau - begin) ** order - ca.fmax(0, tau - end) ** order)
            return total * duration**order / math.factorial(order)

        return formula

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        return self.integral(ORDERS[self.input_is])(tau, duration, c)

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.pieces, -self.jerk), np.full(self.pieces, self.jerk)

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        return self.jerk * rng.uniform(-0.5, 0.5, self.pieces)

    def constraints(self) -> Sequence[SignalConstraint]:
        acceleration, velocity = self.integral(1), self.integral(2)
        return (SignalConstraint("acceleration", acceleration, -self.acceleration, self.acceleration),
                SignalConstraint("velocity", velocity, -self.velocity, self.velocity),
                SignalConstraint("acceleration at the end", acceleration, 0.0, 0.0, everywhere=False),
                SignalConstraint("velocity at the end", velocity, 0.0, 0.0, everywhere=False))


@dataclass(frozen=True)
class Given:
    """An input that is not designed: a constant."""

    value: float = 0.0
    hold: str = "zero"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_hold(self.hold)
        if np.ndim(self.value) or not np.isfinite(self.value):
            raise ProblemError(f"Given({self.value!r}): give one finite number, which the input keeps all along.")

    def formula(self, tau: ca.SX, duration: ca.SX, c: ca.SX) -> ca.SX:
        return self.value + 0 * tau

    def bounds(self, centre: float, half_width: float) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0), np.zeros(0)

    def draw(self, centre: float, half_width: float, rng: np.random.Generator) -> np.ndarray:
        return np.zeros(0)

    def constraints(self) -> Sequence[SignalConstraint]:
        return ()


ORDERS = {"acceleration": 1, "velocity": 2, "position": 3}  # how often the jerk is integrated
SIGNALS: dict[str, type] = {"bernstein": Bernstein, "piecewise_constant": PiecewiseConstant,
                            "piecewise_linear": PiecewiseLinear, "multisine": Multisine, "chirp": Chirp,
                            "binary": Binary, "motion_profile": MotionProfile, "given": Given}
MOST_PIECES, MOST_ORDER, MOST_HARMONICS = 20, 10, 8


def default_shapes(samples: int) -> tuple[Signal, ...]:
    """One signal of each kind, with about as many coefficients each as a record of so many samples can use."""
    pieces = max(2, min(MOST_PIECES, samples // 2))
    return (PiecewiseConstant(pieces), PiecewiseLinear(pieces), Bernstein(min(MOST_ORDER, pieces)),
            Multisine(max(1, min(MOST_HARMONICS, pieces // 2)), mean=True), Binary(max(1, min(pieces - 2, MOST_PIECES - 4))))


def shape_label(signals: Mapping[str, Signal]) -> str:
    """What a plan calls a shape: its kind and how many coefficients it has; of each input where they differ."""
    labels = {name: f"{_kind(signal)} ({len(signal.names)} coefficients)" for name, signal in signals.items()
              if signal.names}
    if len(set(labels.values())) <= 1:
        return next(iter(labels.values()), "given")
    return ", ".join(f"{name}: {label}" for name, label in labels.items())


def _kind(signal: Any) -> str:
    return next((kind.replace("_", " ") for kind, own in SIGNALS.items() if type(signal) is own), type(signal).__name__)


def _check_hold(hold: str) -> None:
    if hold not in HOLDS:
        raise ProblemError(f"hold = '{hold}'; use \"linear\" or \"zero\".")


def _sum(terms: Iterable[ca.SX]) -> ca.SX:
    total = ca.SX(0)
    for term in terms:
        total = total + term
    return total


def _since(edge: ca.SX, k: int) -> ca.SX:
    """1 from piece k on, 0 before."""
    return edge >= k


def _at_least(least: int, count: int, what: str) -> int:
    if not isinstance(count, int) or count < least:
        raise ProblemError(f"{what} = {count!r}; give a whole number from {least} on.")
    return count
