"""How did the search go, where did its starts end, and how sharply do the data determine an unknown, as charts?"""

from __future__ import annotations

import itertools

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.report.charts import Chart, Curve, Panel, Symbol, with_unit
from dynident.report.comparison import Waterfall
from dynident.statistics.profile_likelihood import Profile
from dynident.statistics.uncertainty import LEVEL

COST_HEIGHT, STEP_HEIGHT, COURSE_HEIGHT = 150, 120, 150  # pixels
STARTS_HEIGHT, PROFILE_HEIGHT, PARTNER_HEIGHT = 200, 180, 110  # pixels
MOST_COURSES = 10  # parameters whose way is drawn; more lines hide each other
PARTNERS = 3  # unknowns whose way along a profile is drawn
LINES = tuple(itertools.product((False, True), ("fitted", "second", "input", "residual", "violet")))  # dashed, colour


def convergence_chart(estimate: Estimate) -> Chart:
    """Cost, steps and parameters per iteration; where the search began again the lines are broken, and a dotted one stands."""
    count, begins = numbered(estimate)
    cost = np.array([entry.cost for entry in estimate.history], float)
    panels = [Panel("cost", [_way(count, cost, begins, "cost", "fitted", legend=False)], COST_HEIGHT,
                    log=bool(np.all(cost[np.isfinite(cost)] > 0) and np.any(np.isfinite(cost))))]
    for name, color, values in (("scaled step", "second", [entry.step for entry in estimate.history]),
                                ("violated matching conditions", "residual", [e.max_defect for e in estimate.history])):
        if np.nanmax(values, initial=0.0) > 0:
            way = _way(count, _positive(values), begins, name, color, legend=False)
            panels.append(Panel(name, [way], STEP_HEIGHT, log=True))
    panels += course_panels(estimate, count, begins)
    return Chart(panels, "iteration", "Cost, step and parameters per iteration",
                 breaks=tuple(float(count[k]) for k in begins[1:]))


def numbered(estimate: Estimate) -> tuple[np.ndarray, list[int]]:
    """Iterations done at each entry of the history, and the entries with which a search begins (again).

    A search begins with an entry that has made no step. Where these do not account for the iterations that were counted
    (a method without steps, say), the entries are numbered as they come, and one search is drawn.
    """
    begins = [k for k, entry in enumerate(estimate.history) if entry.step == 0]
    done = np.cumsum([entry.step != 0 for entry in estimate.history]).astype(float)
    if begins[:1] != [0] or done[-1] != estimate.counts.get("iterations"):
        return np.array([entry.number for entry in estimate.history], float), [0]
    return done, begins


def course_panels(estimate: Estimate, count: np.ndarray, begins: list[int]) -> list[Panel]:
    """The way of each parameter, over where it ended: 1 at the end. One that was zero or of the other sign on its way has no
    place on a logarithmic axis, and is drawn on a linear one."""
    unknowns = estimate.problem.unknowns
    if any(len(entry.values) != len(unknowns) for entry in estimate.history) or count.size < 2:
        return []
    values = np.array([entry.values for entry in estimate.history])
    drawn = [i for i, u in enumerate(unknowns) if not u.initial and estimate.values[u.name] != 0][:MOST_COURSES]
    alike: list[Curve] = []
    turned: list[Curve] = []
    for i, (dashed, color) in zip(drawn, LINES, strict=False):
        way = values[:, i] / estimate.values[unknowns[i].name]
        (turned if np.any(way <= 0) else alike).append(_way(count, way, begins, unknowns[i].name, color, dashed=dashed))
    panels = [Panel("parameters over their last value", alike, COURSE_HEIGHT, log=True)] if alike else []
    return panels + ([Panel("parameters over their last value, once of the other sign or zero", turned, COURSE_HEIGHT)]
                     if turned else [])


def _way(count: np.ndarray, values: np.ndarray, begins: list[int], name: str, color: str, dashed: bool = False,
         legend: bool = True) -> Curve:
    """Dots on a line that is broken where a search begins again."""
    places = [k for k in begins if k > 0]
    return Curve(np.insert(count, places, np.nan), np.insert(np.asarray(values, float), places, np.nan), name, color, "dotted",
                 dashed=dashed, legend=legend)


def _positive(values: list[float]) -> np.ndarray:
    """A logarithmic axis has no place for zero: the start has no step, and an exact match no defect."""
    array = np.array(values, float)
    return np.where(array > 0, array, np.nan)


def starts_chart(steps: Waterfall) -> Chart:
    """Cost at the end of each start, best first; those that did not converge are rings."""
    def ends(name: str, color: str, symbol: Symbol, of: np.ndarray) -> Curve:
        return Curve(steps.rank[of].astype(float), steps.cost[of], name, color, "dots", symbols=(symbol,) * int(np.sum(of)))

    curves = [ends("converged", "fitted", "dot", steps.converged), ends("not converged", "second", "ring", ~steps.converged)]
    curves = [each for each in curves if each.x.size]
    last = float(steps.rank[-1]) if steps.rank.size else 1.0
    return Chart([Panel("cost", curves, STARTS_HEIGHT, log=bool(np.all(steps.cost > 0)))], "start, best first",
                 "Cost at the end of each start, from the lowest to the highest", span=(0.5, last + 0.5))


def profile_chart(profile: Profile, name: str, unit: str) -> Chart:
    """Above: rise of the sum of squares with the threshold and the linearised parabola; below: the way of its partners."""
    own, place = profile.curves[name], profile.names.index(name)
    limit = profile.threshold_root(name, LEVEL) ** 2
    std = profile.base.std(name)
    curves = []
    if np.isfinite(std) and std > 0:
        fine = np.linspace(own.values[0], own.values[-1], 200)
        parabola = ((fine - profile.estimated[place]) / std) ** 2
        inside = parabola <= 1.5 * max(float(np.max(own.rise)), limit if np.isfinite(limit) else 0.0)
        curves.append(Curve(fine, np.where(inside, parabola, np.nan), "linearised", "measured", width=4.5))
    curves.append(Curve(own.values, own.rise, "refitted", "fitted", "dotted"))
    if np.isfinite(limit):
        curves.append(Curve(own.values[[0, -1]], np.full(2, limit), f"{LEVEL:.0%} threshold", "second", dashed=True))
    panels = [Panel("rise of the weighted sum of squares", curves, PROFILE_HEIGHT)]
    ways = [_partner(profile, name, partner, *LINES[k]) for k, partner in enumerate(profile.partners(name)[:PARTNERS])]
    panels += [Panel("others, relative change", ways, PARTNER_HEIGHT)] if ways else []
    return Chart(panels, with_unit(name, unit), f"Likelihood profile of {name}")


def _partner(profile: Profile, name: str, partner: str, dashed: bool, color: str) -> Curve:
    own, j = profile.curves[name], profile.names.index(partner)
    change = (own.path[:, j] - profile.estimated[j]) / (abs(profile.estimated[j]) or 1.0)
    return Curve(own.values, change, partner, color, "dotted", dashed=dashed)
