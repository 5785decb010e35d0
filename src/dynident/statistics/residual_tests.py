"""Residual analysis: does what the fit leaves over look like noise?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident.statistics.autocorrelation import FEW_LAGS, levinson
from dynident.statistics.distributions import (
    chi_square_quantile,
    chi_square_sf,
    f_quantile,
    normal_quantile,
    normal_sf,
    poisson_quantile,
    skewness_and_excess,
)

CONFIDENCE = 0.99  # of every band and test here: one false alarm in a hundred good fits
OUTLIER = 4.0  # standard deviations; a normal error lies beyond once in 16,000 samples
MOST_OUTLIERS = 0.2  # of the samples; what is more than that is no matter of single samples
FEWEST_TESTED = 10  # with fewer no test below says anything
MOST_LAGS = 20  # of the whiteness test; more dilute it


@dataclass(frozen=True)
class ResidualTest:
    """One question put to residuals; `passed` means they look like noise in this respect."""

    name: str
    subject: str  # the output, or output and input
    value: float
    threshold: tuple[float, float]  # passed between these
    passed: bool
    sentence: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.passed else 'FAIL'} {self.sentence}"


def residual_tests(residuals: np.ndarray, subject: str, std: np.ndarray | float | None = None,
                   inputs: Mapping[str, np.ndarray] | None = None) -> tuple[ResidualTest, ...]:
    """All tests of one series in sample order (NaN = missing); `std` is the noise that was given, None if estimated."""
    residuals = np.asarray(residuals, float)
    if np.sum(np.isfinite(residuals)) < FEWEST_TESTED:
        return ()
    scaled = residuals / std if std is not None else residuals
    tests = [whiteness(scaled, subject), runs(scaled, subject), normality(scaled, subject),
             outliers(scaled, subject, 1.0 if std is not None else None)]
    tests += [independence(scaled, np.asarray(u, float), subject, name) for name, u in (inputs or {}).items()
              if np.ptp(u) > 0]  # a constant input has no correlation with anything; `check` names it
    return tuple(tests)


def autocorrelation(residuals: np.ndarray, lags: int) -> tuple[np.ndarray, float]:
    """Autocorrelation at lags 0..lags over the pairs that are present, and the half-width of its 99 % band."""
    sums, _ = _lag_sums(residuals, lags)
    count = int(np.sum(np.isfinite(residuals)))
    band = normal_quantile(0.5 + CONFIDENCE / 2) / np.sqrt(max(count, 1))
    return (sums / sums[0] if sums[0] > 0 else np.zeros(lags + 1)), float(band)


def whiteness(residuals: np.ndarray, subject: str = "the residuals", lags: int | None = None,
              confidence: float = CONFIDENCE) -> ResidualTest:
    """Ljung-Box: n (n + 2) sum rho_k^2 / (n - k) against chi-square; missing samples take their pairs with them."""
    count = int(np.sum(np.isfinite(residuals)))
    lags = max(1, min(MOST_LAGS, count // 5)) if lags is None else lags
    sums, pairs = _lag_sums(residuals, lags)
    rho = sums[1:] / sums[0] if sums[0] > 0 else np.zeros(lags)
    used = pairs[1:] > 0
    value = float(np.sum(rho[used] ** 2 / pairs[1:][used]) * count * (count + 2))
    limit = chi_square_quantile(confidence, int(np.sum(used))) if np.any(used) else np.inf
    passed = value <= limit
    p = chi_square_sf(value, max(int(np.sum(used)), 1))
    said = (f"{subject}: no autocorrelation found (Ljung-Box over {lags} lags, p = {p:.2g})" if passed else
            f"{subject}: {_alike(rho, count)} (Ljung-Box over {lags} lags, p = {p:.2g})")
    return ResidualTest("whiteness", subject, value, (0.0, limit), passed, said)


def surely_not_white(residuals: np.ndarray, confidence: float) -> bool:
    """Monti's form of Ljung-Box, by partial autocorrelations, beyond chi-square at levels of one in ten thousand too.

    Partial autocorrelations of white noise are nearly independent, so that its tail is that of chi-square. Of 200 white samples
    Ljung-Box exceeds the limit for 1e-4 ten times as often, and one of a hundred series does so in each tenth fit.
    """
    count = int(np.sum(np.isfinite(residuals)))
    lags = max(1, min(MOST_LAGS, count // 5))
    sums, pairs = _lag_sums(residuals, lags)
    used = pairs[1:] > 0
    terms = levinson(sums)[1][used] ** 2 / pairs[1:][used]
    return bool(float(np.sum(terms)) * count * (count + 2) > chi_square_quantile(confidence, max(int(np.sum(used)), 1)))


def _alike(rho: np.ndarray, count: int) -> str:
    """Which residuals are alike: neighbours, where these are beyond chance, else those at the lag that shows it most."""
    chance = normal_quantile(0.5 + CONFIDENCE / 2) / np.sqrt(max(count, 1))
    if abs(rho[0]) > chance:
        how = "are alike" if rho[0] > 0 else "are opposed"
        return f"neighbouring residuals {how}, correlation {rho[0]:.2f} from one sample to the next"
    lag = int(np.argmax(np.abs(rho)))
    how = "are alike" if rho[lag] > 0 else "are opposed"
    return f"residuals {lag + 1} samples apart {how}, correlation {rho[lag]:.2f}"


def independence(residuals: np.ndarray, signal: np.ndarray, subject: str = "the residuals",
                 input_name: str = "the input", lags: int | None = None) -> ResidualTest:
    """Largest cross-correlation with past values of an input, over its bound for all lags together."""
    correlation, bound = cross_correlation(residuals, signal, lags)
    at = int(np.argmax(np.abs(correlation)))
    value = float(abs(correlation[at]) / bound) if bound > 0 else 0.0
    passed = value <= 1
    said = (f"{subject}: no correlation with {input_name} found" if passed else
            f"{subject}: the residuals still follow {input_name} (correlation {correlation[at]:.2f} at lag {at}, "
            f"bound {bound:.2f}); the model misses part of its effect")
    return ResidualTest("independence", f"{subject} / {input_name}", value, (0.0, 1.0), passed, said)


def cross_correlation(residuals: np.ndarray, signal: np.ndarray, lags: int | None = None) -> tuple[np.ndarray, float]:
    """Correlation of residuals[t + k] with signal[t], k = 0..lags, and a bound that all lags keep with 99 %.

    The variance of each is sum_k rho_e(k) rho_u(k) / n (Ljung, System Identification, 16.6): slow residuals meeting a
    slow input correlate by chance. rho_e is that of the residuals without what follows the signal at its best lag; else the
    trace of a periodic input would itself explain why residuals and input are alike.
    """
    there = np.isfinite(residuals)
    count = int(np.sum(there))
    lags = max(1, min(MOST_LAGS, count // 5)) if lags is None else lags
    e = np.where(there, residuals, 0.0)
    u = signal - np.mean(signal[there])
    size = np.sqrt(np.sum(e**2) * np.sum(u[there] ** 2))
    if size == 0:
        return np.zeros(lags + 1), 0.0
    correlation = np.array([e[k:] @ u[: u.size - k] for k in range(lags + 1)]) / size
    at = int(np.argmax(np.abs(correlation)))
    late = np.where(there, np.concatenate([np.zeros(at), u[: u.size - at]]), 0.0)
    rest = e - (e @ late) / max(late @ late, np.finfo(float).tiny) * late
    memory = max(lags, count // 4)
    rho_e, rho_u = _lag_sums(np.where(there, rest, np.nan), memory)[0], _lag_sums(np.where(there, u, np.nan), memory)[0]
    taper = np.linspace(1, 0, memory + 1)
    both = rho_e * rho_u / (np.sum(e**2) * rho_u[0]) * taper if rho_u[0] > 0 else np.zeros(memory + 1)
    variance = max(float(both[0] + 2 * np.sum(both[1:])), 1.0) / count  # never below that of white residuals
    return correlation, float(normal_quantile(1 - (1 - CONFIDENCE) / (2 * (lags + 1))) * np.sqrt(variance))


def runs(residuals: np.ndarray, subject: str = "the residuals") -> ResidualTest:
    """Wald-Wolfowitz: number of stretches of equal sign, in standard deviations from what chance gives."""
    signs = np.sign(residuals[np.isfinite(residuals) & (residuals != 0)])
    above, below = float(np.sum(signs > 0)), float(np.sum(signs < 0))
    found = 1 + int(np.sum(signs[1:] != signs[:-1])) if signs.size else 0
    limit = normal_quantile(0.5 + CONFIDENCE / 2)
    count = above + below
    if min(above, below) == 0:
        side = "zero" if count == 0 else "on one side"
        return ResidualTest("runs", subject, -np.inf if count else 0.0, (-limit, limit), count == 0,
                            f"{subject}: all residuals are {side}")
    expected = 1 + 2 * above * below / count
    variance = (expected - 1) * (expected - 2) / (count - 1)
    value = float((found - expected) / np.sqrt(variance)) if variance > 0 else 0.0
    passed = abs(value) <= limit
    said = f"{subject}: {found} changes of sign where {expected:.0f} are expected"
    return ResidualTest("runs", subject, value, (-limit, limit), passed,
                        said if passed else f"{said}; the residuals {'drift' if value < 0 else 'alternate'}")


def normality(residuals: np.ndarray, subject: str = "the residuals") -> ResidualTest:
    """Jarque-Bera on skewness and kurtosis."""
    there = residuals[np.isfinite(residuals)]
    limit = chi_square_quantile(CONFIDENCE, 2)
    if np.ptp(there) == 0:
        return ResidualTest("normality", subject, 0.0, (0.0, limit), True, f"{subject}: all residuals are equal")
    skew, excess = skewness_and_excess(there)
    value = there.size / 6 * (skew**2 + excess**2 / 4)
    passed = value <= limit
    said = f"{subject}: skewness {skew:.2g}, excess kurtosis {excess:.2g} (Jarque-Bera {value:.3g}, limit {limit:.3g})"
    return ResidualTest("normality", subject, value, (0.0, limit), passed,
                        said if passed else f"{said}; the errors are not normal")


def outliers(residuals: np.ndarray, subject: str = "the residuals", std: float | None = None) -> ResidualTest:
    """How many lie beyond 4 standard deviations; without a given std, of the median deviation."""
    there = residuals[np.isfinite(residuals)]
    sigma = 1.4826 * float(np.median(np.abs(there))) if std is None else std  # 1.4826: MAD to std of a normal
    if sigma == 0:
        sigma = float(np.sqrt(np.mean(there**2)))  # more than half are exactly zero (coarse quantisation)
    found = int(np.sum(np.abs(there) > OUTLIER * sigma))
    limit = poisson_quantile(CONFIDENCE, there.size * 2 * normal_sf(OUTLIER))
    said = f"{subject}: {found} of {there.size} residuals lie beyond {OUTLIER:g} standard deviations"
    way_out = "look at these samples, or use a robust loss" if found <= MOST_OUTLIERS * there.size else (
        "so many are no outliers, but the noise or an error of the model")
    return ResidualTest("outliers", subject, float(found), (0.0, limit), found <= limit,
                        said if found <= limit else f"{said}, {limit:.0f} may be chance; {way_out}")


def noise_as_fitted(residuals: np.ndarray, std: float, dof: float, subject: str) -> ResidualTest:
    """Mean square against that of a fit, for a record of which no noise level was given.

    `dof` of the fit's std: infinite where that was given, else the band is that of Fisher's F.
    """
    there = residuals[np.isfinite(residuals)]
    value = float(np.mean(there**2)) / std**2
    low, high = (f_quantile((1 + side * CONFIDENCE) / 2, there.size, dof) for side in (-1, 1))
    passed = low <= value <= high
    rms = np.sqrt(value) * std
    said = f"{subject}: no noise level was given; rms error {rms:.3g}, noise of the fit {std:.3g}"
    if not passed:
        doubt = "noisier than the fit's, or the model is wrong here" if value > high else "less noisy than the fit's"
        said += f"; {np.sqrt(value):.3g} times as much: this record is {doubt}"
    return ResidualTest("noise level", subject, value, (low, high), passed, said)


def noise_level(chi2: float, dof: float, subject: str = "all outputs", outlying: bool = False,
                independent: float = 1.0) -> ResidualTest:
    """Reduced chi-square against its 99 % band: was the given noise level right?

    `independent`: share of the samples that would tell a variance as well if no two were alike; the band is as wide as theirs.
    """
    if dof <= 0:
        return ResidualTest("noise level", subject, np.nan, (0.0, np.inf), True,
                            f"{subject}: no degree of freedom is left to judge the given noise level")
    own = max(1.0, independent * dof)
    low, high = (chi_square_quantile((1 + side * CONFIDENCE) / 2, own) / own for side in (-1, 1))
    value = chi2 / dof
    passed = low <= value <= high
    said = f"{subject}: reduced chi-square {value:.4g}, 99 % band {low:.4g} to {high:.4g}"
    said += " for errors as alike as these" if independent < 1 else ""
    if not passed:
        factor = np.sqrt(value)
        wrong = "the model is wrong, or single samples stick out" if outlying else "or the model is wrong"
        said += (f"; the given noise std looks {factor:.3g} times too small, {wrong}" if value > high
                 else f"; the given noise std looks {1 / factor:.3g} times too large" if value > 0
                 else "; the residuals vanish, so the given noise std is too large")
    return ResidualTest("noise level", subject, value, (low, high), passed, said)


def follows_data(chi2: float, dof: float) -> bool:
    """Whether a sum of squares is not larger than the given noise lets expect; without a degree of freedom it is not."""
    test = noise_level(chi2, dof)
    return not test.value > test.threshold[1]


def _lag_sums(residuals: np.ndarray, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of products and numbers of pairs at lags 0..lags, over the record with zeros where missing."""
    there = np.isfinite(residuals)
    size = int(2 ** np.ceil(np.log2(max(2 * residuals.size, 2))))

    def sums(signal: np.ndarray) -> np.ndarray:
        if lags <= FEW_LAGS:
            return np.array([signal[: max(0, signal.size - k)] @ signal[k:] for k in range(lags + 1)])
        full = np.fft.irfft(np.abs(np.fft.rfft(signal, size)) ** 2, size)
        return np.concatenate([full, np.zeros(max(0, lags + 1 - full.size))])[: lags + 1]

    if np.all(there):
        return sums(residuals), np.maximum(residuals.size - np.arange(lags + 1.0), 0.0)
    return sums(np.where(there, residuals, 0.0)), np.round(sums(there.astype(float)))
