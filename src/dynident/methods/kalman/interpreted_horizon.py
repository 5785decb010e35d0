"""Moving horizon without a C compiler: filter_horizon.c, line by line, in NumPy; some hundred times slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dynident.methods.kalman.engine import Later, Layout, Smoothed, Stopped
from dynident.methods.kalman.setup import Record, Setup
from dynident.methods.kalman.stepwise import SquareRoot, Stepwise


@dataclass(eq=False)
class Node:
    """One sample in the window."""

    time: float
    input: np.ndarray
    y: np.ndarray
    r: np.ndarray
    at: np.ndarray  # where on the trajectory the model is linear
    used: np.ndarray = field(default_factory=lambda: np.zeros(0))  # as the gate said when the sample came

    def numbers(self) -> np.ndarray:
        return np.concatenate([[self.time], self.input, self.y, self.r, self.at, self.used])


class InterpretedHorizon:
    """After each sample, Gauss-Newton steps on the window: one pass of the filter forward, one of the smoother back."""

    def __init__(self, setup: Setup):
        self.layout, self.setup = Layout(setup), setup
        self.step = (SquareRoot if setup.method.covariance_update == "square_root" else Stepwise)(setup, self.layout)
        self.begin(np.zeros(self.layout.n), np.zeros((self.layout.n, self.layout.n)))

    def begin(self, x: np.ndarray, P: np.ndarray, t: float | None = None, u: np.ndarray | None = None) -> None:
        kept = self.step.kept(np.asarray(P, float))
        self.t, self.started = 0.0 if t is None else t, t is not None
        if kept is None:
            raise Stopped(2, 0, self.t, "the start", self.setup.method)
        self.u = np.zeros(self.layout.nu) if u is None else np.array(u, float)
        self.x, self.P, self.P_now = np.array(x, float), kept, kept  # prior of the oldest node; covariance of the newest
        self.window: list[Node] = []

    def hold(self, linear: np.ndarray) -> None:
        self.step.linear = linear

    def record(self, record: Record, links: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        out = np.empty((len(record.time), self.layout.sample["projected"].stop))
        for k, t in enumerate(record.time):
            variance = record.variance[k if len(record.variance) > 1 else 0]
            fault = self._one(float(t), record.inputs[k], record.outputs[k], variance, out[k])
            if fault:
                raise Stopped(fault, k, float(t), record.name, self.setup.method)
        return out, None

    def smooth(self, samples: np.ndarray, links: np.ndarray, later: Later) -> Smoothed:
        raise AssertionError("a moving horizon has no smoother, as its options say")

    def updater(self, packed: np.ndarray, out: np.ndarray) -> Callable[[], int]:
        nu, ny = self.layout.nu, self.layout.ny
        u, y, r = packed[1:1 + nu], packed[1 + nu:1 + nu + ny], packed[1 + nu + ny:]
        return lambda: self._one(float(packed[0]), u, y, r, out)

    def present(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.window[-1].at if self.window else self.x).copy(), self.step.full(self.P_now).copy()

    def memory(self) -> np.ndarray:
        nu, ny, n = self.layout.nu, self.layout.ny, self.layout.n
        nodes = np.zeros((self.setup.method.horizon + 1, 1 + nu + 3 * ny + n))
        for row, node in zip(nodes, self.window, strict=False):
            row[:] = node.numbers()
        return np.concatenate([[self.t, float(self.started), len(self.window)], self.u, self.x, self.P.ravel(),
                               self.P_now.ravel(), nodes.ravel()])

    def remember(self, memory: np.ndarray) -> None:
        nu, ny, n = self.layout.nu, self.layout.ny, self.layout.n
        head, self.u, self.x, P, P_now, nodes = np.split(memory.copy(), np.cumsum([3, nu, n, n * n, n * n]))
        self.t, self.started = float(head[0]), bool(head[1])
        self.P, self.P_now = P.reshape(n, n), P_now.reshape(n, n)
        rows = nodes.reshape(self.setup.method.horizon + 1, -1)[:int(head[2])]
        ends = np.cumsum([1, nu, ny, ny, n])
        self.window = [Node(float(time[0]), *parts) for time, *parts in (np.split(row, ends) for row in rows)]

    def _one(self, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray, out: np.ndarray) -> int:
        if self.started and t < self.t:
            return 3
        if len(self.window) > self.setup.method.horizon:
            self._slide()
        at = self.window[-1].at.copy() if self.window else self.x
        if self.started and t > self.t:
            x, P, point, _ = self._across(self.t, t, self.u, u, at, at, self.P)
            at = point
            if not self.window:
                self.x, self.P = x, P
        self.window.append(Node(t, np.array(u, float), np.array(y, float), np.array(r, float), at))
        self.started, self.t, self.u = True, t, np.array(u, float)
        for iteration in range(self.setup.method.iterations):
            self._gauss_newton(iteration == 0, out)
        variance = np.diag(self.step.full(self.P_now))
        fields = self.layout.sample
        out[fields["x"]], out[fields["variance"]] = self.window[-1].at, variance
        if np.any(variance < 0):
            return 2
        return 0 if np.all(np.isfinite(out[fields["x"]])) and np.all(np.isfinite(variance)) else 1

    def _slide(self) -> None:
        """The oldest node leaves the window and becomes part of the prior of the next."""
        oldest, following = self.window[:2]
        x, P = self._look(oldest, self.x, self.P, None)
        self.x, self.P, *_ = self._across(oldest.time, following.time, oldest.input, following.input, oldest.at, x, P)
        del self.window[0]

    def _across(self, begin: float, end: float, u_begin: np.ndarray, u_end: np.ndarray, at: np.ndarray, x: np.ndarray,
                P: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Mean and covariance one interval later, linear around `at`; where `at` comes to, and the derivative."""
        nx, n = self.layout.nx, self.layout.n
        point, off, total = at, x - at, np.eye(n)
        for t, h, u0, u1, share in self.step.intervals(begin, end, u_begin, u_end):
            nxt, F = (np.asarray(v) for v in self.step.next(t, h, point, u0, u1, self.step.told["p"]))
            A = np.vstack([F, np.eye(n)[nx:]])
            point, off = np.concatenate([nxt.ravel(), point[nx:]]), A @ off
            P, total = self.step.moved(P, A, self.setup.q * share), A @ total
        return point + off, P, point, total

    def _look(self, node: Node, x: np.ndarray, P: np.ndarray, out: np.ndarray | None, link: np.ndarray | None = None
              ) -> tuple[np.ndarray, np.ndarray]:
        """The measurements of a node; judged, and said in `out`, where that is given."""
        seen, H = (np.asarray(v) for v in self.step.seen(node.time, node.at, node.input, self.step.told["p"]))
        if out is not None:
            out[self.layout.sample["predicted"]] = seen.ravel() + H @ (x - node.at)
        judged = node.used if out is None else None
        x, P, node.used = self.step.take(x, P, node.at, seen.ravel(), H, node.y, node.r, judged, out, link)
        return x, P

    def _gauss_newton(self, judge: bool, out: np.ndarray) -> None:
        x, P = self.x, self.P
        links, means, covariances, derivatives = [], [], [], []
        for node, following in zip(self.window, [*self.window[1:], None], strict=True):
            links.append(np.zeros(self.layout.link["e"].stop))
            x, P = self._look(node, x, P, out if judge and following is None else None, links[-1])
            means.append(x.copy())
            covariances.append(self.step.full(P))
            if following is not None:
                x, P, _, A = self._across(node.time, following.time, node.input, following.input, node.at, x, P)
                derivatives.append(A)
        self.P_now, multipliers = P, np.zeros(self.layout.n)
        newest = x.copy()
        out[self.layout.sample["projected"]] = self.step.put_back(newest, covariances[-1], multipliers)
        self.window[-1].at = newest
        for k in range(len(self.window) - 2, -1, -1):
            multipliers = derivatives[k].T @ self._before(links[k + 1], multipliers)
            self.window[k].at = means[k] - covariances[k] @ multipliers

    def _before(self, link: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """The adjoint of a sample's measurements."""
        where, n, ny = self.layout.link, self.layout.n, self.layout.ny
        h, c, e = link[where["h"]].reshape(ny, n), link[where["c"]].reshape(ny, n), link[where["e"]]
        for j in range(ny - 1, -1, -1):
            multipliers = multipliers - (e[j] + c[j] @ multipliers) * h[j]
        return multipliers
