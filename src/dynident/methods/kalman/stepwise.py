"""Stepwise: each filter in NumPy, a sample at a time; slow, for machines without a compiler and as a check."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.methods.kalman import stages
from dynident.methods.kalman.engine import Later, Layout, Smoothed
from dynident.methods.kalman.setup import Setup

NO_PIVOT = 1e-13  # as in the kernels: relative, below it a direction is known exactly
MIDDLE_WEIGHT = 2.0  # of the unscented covariance


class Stepwise:
    """One update of mean and covariance; None where the covariance is no longer positive.

    The covariance is kept as it is; `SquareRoot` keeps a factor of it.
    """

    def __init__(self, setup: Setup, layout: Layout):
        self.setup, self.layout, self.told = setup, layout, setup.settings()
        self.linear = self.told["linear"]
        s = stages.symbols(setup.augmented)
        nxt, y = stages.next_states(setup.augmented, setup.integrator, s), stages.outputs(setup.augmented, s)
        step, look = [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]], [s["t"], s["a"], s["u0"], s["p"]]
        self.next = ca.Function("next", step, [nxt, ca.jacobian(nxt, s["a"])])
        self.seen = ca.Function("seen", look, [y, ca.jacobian(y, s["a"])])

    def update(self, x: np.ndarray, P: np.ndarray, begin: float, end: float, u_begin: np.ndarray, u_end: np.ndarray,
               y: np.ndarray, r: np.ndarray, out: np.ndarray, link: np.ndarray | None
               ) -> tuple[np.ndarray, np.ndarray] | None:
        f, unscented = self.layout.sample, self.setup.method.filter == "unscented"
        A = np.eye(self.layout.nx, self.layout.n)
        if end > begin:
            moved = (self._points_on if unscented else self._line_on)(x, P, begin, end, u_begin, u_end)
            if moved is None:
                return None
            x, P, A = moved
        if link is not None:
            link[:] = 0
            link[self.layout.link["A"]] = A.ravel()
        taken = (self._take_points if unscented else self._take_lines)(x, P, end, u_end, y, r, out, link)
        if taken is None:
            return None
        x, P = taken
        full = self.full(P)
        out[f["projected"]] = self.put_back(x, full)
        out[f["x"]], out[f["variance"]] = x, np.diag(full)
        if link is not None:
            link[self.layout.link["P"]] = full.ravel()
        return None if np.any(np.diag(full) < 0) else (x, P)

    def kept(self, P: np.ndarray) -> np.ndarray | None:
        """A covariance as it is kept; None where it is not positive."""
        return P.copy()

    def full(self, kept: np.ndarray) -> np.ndarray:
        """The covariance that is kept."""
        return kept

    def moved(self, kept: np.ndarray, A: np.ndarray, q: np.ndarray) -> np.ndarray:
        """A P A' + diag(q)"""
        P = A @ kept @ A.T + np.diag(q)
        return (P + P.T) / 2

    def along(self, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
        """P h"""
        return kept @ h

    def absorbed(self, kept: np.ndarray, h: np.ndarray, k: np.ndarray, r: float) -> np.ndarray:
        """After a measurement with gain k, by the formula of Joseph."""
        W = np.eye(len(h)) - np.outer(k, h)
        return W @ kept @ W.T + r * np.outer(k, k)

    def intervals(self, begin: float, end: float, u_begin: np.ndarray, u_end: np.ndarray):
        count = max(1, int(np.ceil((end - begin) / self.setup.longest * (1 - 1e-6))))
        h = (end - begin) / count
        slope = self.linear * (u_end - u_begin) / count
        for m in range(count):
            yield begin + m * h, h, u_begin + m * slope, u_begin + (m + 1) * slope, (
                1 / count if self.told["per_sample"] else h)

    def _line_on(self, x, P, begin, end, u_begin, u_end):
        nx, n = self.layout.nx, self.layout.n
        total = np.eye(n)
        for t, h, u0, u1, share in self.intervals(begin, end, u_begin, u_end):
            nxt, F = (np.asarray(v) for v in self.next(t, h, x, u0, u1, self.told["p"]))
            A = np.vstack([F, np.eye(n)[nx:]])
            x = np.concatenate([nxt.ravel(), x[nx:]])
            P, total = self.moved(P, A, self.setup.q * share), A @ total
        return x, P, total[:nx]

    def _take_lines(self, x, P, t, u, y, r, out, link):
        at, before = x, (x, P)
        iterations = self.setup.method.iterations if self.setup.method.filter == "iterated" else 1
        used = None
        for iteration in range(iterations):
            seen, H = (np.asarray(v) for v in self.seen(t, at, u, self.told["p"]))
            if iteration == 0:
                out[self.layout.sample["predicted"]] = seen.ravel()
            x, P, used = self.take(*before, at, seen.ravel(), H, y, r, used, out, link)
            at = x
        return x, P

    def take(self, x, P, at, seen, H, y, r, used, out, link):
        """All measurements of one sample, linear around `at`; `used` as judged before, or None to judge now, which fills
        `out`. Returns mean, covariance and which were used."""
        judge, gate = used is None, self.told["gate"]
        whitened, loglik = np.full(len(y), np.nan), 0.0
        used = np.zeros(len(y)) if judge else used
        for j in map(int, np.flatnonzero(np.isfinite(y))):
            h, innovation = H[j], y[j] - seen[j] - H[j] @ (x - at)
            d = self.along(P, h)
            v = h @ d + r[j]
            if judge:
                used[j] = 2 if gate > 0 and innovation**2 > gate**2 * v else 1
                if used[j] == 1:
                    whitened[j] = innovation / np.sqrt(v)
                    loglik -= 0.5 * (np.log(2 * np.pi * v) + whitened[j] ** 2)
            if used[j] == 1:
                self._row(link, j, h / np.sqrt(v), d / np.sqrt(v), innovation / np.sqrt(v))
                x, P = x + d / v * innovation, self.absorbed(P, h, d / v, r[j])
        if judge:
            self._note(out, whitened, used, loglik)
        return x, P, used

    def _row(self, link: np.ndarray | None, j: int, h: np.ndarray, c: np.ndarray, e: float) -> None:
        if link is not None:
            n, where = self.layout.n, self.layout.link
            link[where["h"]][j * n:(j + 1) * n], link[where["c"]][j * n:(j + 1) * n] = h, c
            link[where["e"]][j] = e

    def _draw(self, x, P):
        """The points, and the factor that spreads them."""
        L = semidefinite_factor(P)
        return None if L is None else (
            np.vstack([x, x + np.sqrt(len(x)) * L.T, x - np.sqrt(len(x)) * L.T]), L)

    def _points_on(self, x, P, begin, end, u_begin, u_end):
        drawn = self._draw(x, P)
        if drawn is None:
            return None
        points, L = drawn
        after, nx, total = points.copy(), self.layout.nx, 0.0
        for t, h, u0, u1, share in self.intervals(begin, end, u_begin, u_end):
            total += share
            for point in after:
                point[:nx] = np.asarray(self.next(t, h, point, u0, u1, self.told["p"])[0]).ravel()
        mean = after[1:].mean(axis=0)
        off, weight = after - mean, 1 / (len(points) - 1)
        A = regression(L, after[1:len(x) + 1, :nx], after[len(x) + 1:, :nx])
        return mean, weight * off[1:].T @ off[1:] + MIDDLE_WEIGHT * np.outer(off[0], off[0]) + np.diag(
            self.setup.q * total), A

    def _take_points(self, x, P, t, u, y, r, out, link):
        drawn = self._draw(x, P)
        if drawn is None:
            return None
        points, L = drawn
        f, gate, weight = self.layout.sample, self.told["gate"], 1 / (len(points) - 1)
        Y = np.array([np.asarray(self.seen(t, p, u, self.told["p"])[0]).ravel() for p in points])
        mean = Y[1:].mean(axis=0)
        out[f["predicted"]] = mean
        off, there = Y - mean, np.isfinite(y)
        S = weight * off[1:].T @ off[1:] + MIDDLE_WEIGHT * np.outer(off[0], off[0]) + np.diag(r)
        used = np.where(there, 1.0, 0.0)
        if gate > 0:
            used[there & (np.where(there, y - mean, 0) ** 2 > gate**2 * np.diag(S))] = 2
        which = np.flatnonzero(used == 1)
        G = np.linalg.cholesky(S[np.ix_(which, which)])
        C = np.linalg.solve(G, weight * off[1:, which].T @ (points[1:] - x))
        whitened = np.full(len(y), np.nan)
        whitened[which] = np.linalg.solve(G, (y - mean)[which])
        loglik = -0.5 * (np.sum(whitened[which] ** 2) + np.sum(np.log(2 * np.pi * np.diag(G) ** 2)))
        self._note(out, whitened, used, float(loglik))
        rows = np.linalg.solve(G, regression(L, Y[1:len(x) + 1, which], Y[len(x) + 1:, which]))
        for place, j in enumerate(which):
            self._row(link, place, rows[place], C[place], float(whitened[j]))
        return x + C.T @ whitened[which], P - C.T @ C

    def _note(self, out: np.ndarray, whitened: np.ndarray, used: np.ndarray, loglik: float) -> None:
        f = self.layout.sample
        out[f["whitened"]], out[f["used"]], out[f["nis"]] = whitened, used, np.nansum(whitened**2)
        out[f["loglik"]] = loglik

    def put_back(self, x: np.ndarray, P: np.ndarray, multipliers: np.ndarray | None = None) -> int:
        """Parameters outside of their bounds onto them, in the metric of P; x moves by -P times the multipliers."""
        moved = 0
        for place, (low, high) in enumerate(zip(self.told["lower"], self.told["upper"], strict=True)):
            row = self.layout.nx + place
            wanted = min(max(x[row], low), high)
            if wanted != x[row] and P[row, row] > 0:
                if multipliers is not None:
                    multipliers[row] -= (wanted - x[row]) / P[row, row]
                x += P[:, row] / P[row, row] * (wanted - x[row])
                x[row] = wanted
                moved += 1
        return moved


class SquareRoot(Stepwise):
    """Keeps a matrix L with L L' = P: steps by an orthogonal factorisation, measurements by Potter's formula."""

    def kept(self, P: np.ndarray) -> np.ndarray | None:
        return semidefinite_factor(P)

    def full(self, kept: np.ndarray) -> np.ndarray:
        return kept @ kept.T

    def moved(self, kept: np.ndarray, A: np.ndarray, q: np.ndarray) -> np.ndarray:
        _, upper = np.linalg.qr(np.vstack([(A @ kept).T, np.diag(np.sqrt(q))]))
        return upper.T

    def along(self, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
        return kept @ (kept.T @ h)

    def absorbed(self, kept: np.ndarray, h: np.ndarray, k: np.ndarray, r: float) -> np.ndarray:
        w = kept.T @ h
        return kept - np.outer(k, w) / (1 + np.sqrt(r / (w @ w + r)))


def semidefinite_factor(P: np.ndarray) -> np.ndarray | None:
    """L with L L' = P; a direction without variance gives a column of zeros. None if one has a negative variance."""
    n = len(P)
    L = np.zeros((n, n))
    for j in range(n):
        pivot, size = P[j, j] - L[j, :j] @ L[j, :j], abs(P[j, j])
        if pivot <= NO_PIVOT * size:
            if not pivot >= -1e-6 * size:
                return None
            continue
        L[j, j] = np.sqrt(pivot)
        L[j + 1:, j] = (P[j + 1:, j] - L[j + 1:, :j] @ L[j, :j]) / L[j, j]
    return L


def regression(L: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Slopes (quantities, size) of what became of the points x + sqrt(n) L and x - sqrt(n) L, (size, quantities)."""
    n = len(L)
    D = (plus - minus).T / (2 * np.sqrt(n))
    slope = np.zeros_like(D)
    for j in range(n - 1, -1, -1):
        if L[j, j] > 0:  # no spread, no slope: nothing depends on it
            slope[:, j] = (D[:, j] - slope[:, j + 1:] @ L[j + 1:, j]) / L[j, j]
    return slope


def back(layout: Layout, samples: np.ndarray, links: np.ndarray, later: Later, together: bool) -> Smoothed:
    """The smoother of Rauch, Tung and Striebel in Bryson and Frazier's form; `together`: rows of a sample at once."""
    n, nx, ny = layout.n, layout.nx, layout.ny
    xs, vs = np.empty((len(samples), n)), np.empty((len(samples), n))
    vector, matrix = later.vector.copy(), later.matrix.copy()
    A = np.eye(n)
    for k in range(len(samples) - 1, -1, -1):
        P = links[k, layout.link["P"]].reshape(n, n)
        xs[k] = samples[k, layout.sample["x"]] - P @ vector
        P_smoothed = P - P @ matrix @ P
        vs[k] = np.diag(P_smoothed)
        h, c = (links[k, layout.link[name]].reshape(ny, n) for name in "hc")
        e = links[k, layout.link["e"]]
        for rows in ([slice(None)] if together else [slice(j, j + 1) for j in reversed(range(ny))]):
            B = np.eye(n) - c[rows].T @ h[rows]
            vector = B.T @ vector - h[rows].T @ e[rows]
            matrix = B.T @ matrix @ B + h[rows].T @ h[rows]
        A[:nx] = links[k, layout.link["A"]].reshape(nx, n)
        vector, matrix = A.T @ vector, A.T @ matrix @ A
    return Smoothed(xs, vs, P_smoothed, Later(vector, matrix))
