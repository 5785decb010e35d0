"""Stiff peers: one pass with forward sensitivities by diffsol, diffrax and AMICI; run by a Python that has them.

    python stiff_peers.py diffsol|diffrax|amici case.json   ->  a line RESULT [{"seconds", "states", "sensitivities"}, ...]

diffsol (BDF of variable order in Rust, the model compiled by LLVM) carries sensitivities along its own steps; diffrax
(Kvaerno's ESDIRK of order 5 in XLA) is differentiated through its steps, internal differentiation to the letter; AMICI is
CVODES in C++ with generated right-hand sides. One answer for each pair of tolerances; nothing that is compiled once is
counted.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import answer_as_peer

REPEATS = 3


def best(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the quickest of several runs after one that compiles, and what it gave."""
    found, spent = run(), []
    for _ in range(REPEATS):
        began = time.process_time()
        found = run()
        spent.append(time.process_time() - began)
    return min(spent), found


def rates(case: dict) -> dict[str, str]:
    """Without powers, and with what was defined put in."""
    defined = {name: re.sub(r"(\w+)\*\*2", r"\1*\1", text) for name, text in case["definitions"].items()}
    return {name: re.sub(r"\b\w+\b", lambda word: f"({defined[word[0]]})" if word[0] in defined else word[0],
                         re.sub(r"(\w+)\*\*2", r"\1*\1", text)) for name, text in case["states"].items()}


def answer(seconds: float, states: np.ndarray, sensitivities: np.ndarray) -> dict[str, Any]:
    """(samples, states), (samples, states, free)"""
    return {"seconds": seconds, "states": states.tolist(), "sensitivities": sensitivities.tolist()}


def by_diffsol(case: dict) -> list[dict[str, Any]]:
    import pydiffsol as ds

    known = "\n".join(f"{name} {{ {value!r} }}" for name, value in case["values"].items() if name not in case["free"])
    values = case["values"]
    text = "\n".join([f"in_i {{ {', '.join(f'{n} = {values[n]!r}' for n in case['free'])} }}", known,
                      f"u_i {{ {', '.join(f'{n} = {float(v)!r}' for n, v in case['initial'].items())} }}",
                      f"F_i {{ {', '.join(rates(case).values())} }}"])
    solver = ds.Ode(text, matrix_type=ds.nalgebra_dense, ode_solver=ds.bdf)
    p, t, answers = np.array([case["values"][n] for n in case["free"]]), np.array(case["time"]), []
    for relative, absolute in case["tolerances"]:
        solver.rtol = solver.sens_rtol = relative
        solver.atol = solver.sens_atol = absolute
        spent, found = best(lambda: solver.solve_fwd_sens(p, t))
        answers.append(answer(spent, np.asarray(found.ys).T, np.asarray(found.sens).transpose(2, 1, 0)))
    return answers


def by_diffrax(case: dict) -> list[dict[str, Any]]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax
    import jax.numpy as jnp

    code, names = [compile(text, name, "eval") for name, text in rates(case).items()], list(case["states"])

    def rate(_t: Any, x: Any, p: Any) -> Any:
        place = {**case["values"], **dict(zip(case["free"], p, strict=True)), **dict(zip(names, x, strict=True))}
        return jnp.stack([eval(each, {}, place) for each in code])

    t, x0 = jnp.array(case["time"]), jnp.array([float(v) for v in case["initial"].values()])

    def states(p: Any, relative: float, absolute: float) -> Any:
        root = diffrax.VeryChord(rtol=1e-2 * relative, atol=1e-2 * absolute)
        control = diffrax.PIDController(rtol=relative, atol=absolute)
        return diffrax.diffeqsolve(diffrax.ODETerm(rate), diffrax.Kvaerno5(root_finder=root), t[0], t[-1], None, x0, p,
                                   saveat=diffrax.SaveAt(ts=t), stepsize_controller=control, max_steps=100_000,
                                   adjoint=diffrax.ForwardMode()).ys

    p, answers = jnp.array([case["values"][n] for n in case["free"]]), []
    for at in case["tolerances"]:
        run = jax.jit(lambda p, at=tuple(at): (states(p, *at), jax.jacfwd(lambda p: states(p, *at))(p)))
        spent, (x, by) = best(lambda run=run: jax.block_until_ready(run(p)))
        answers.append(answer(spent, np.asarray(x), np.asarray(by)))
    return answers


def by_amici(case: dict) -> list[dict[str, Any]]:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where swig is
    import amici
    import libsbml
    from amici.importers.sbml import SbmlImporter
    from amici.sim.sundials import SensitivityMethod, SensitivityOrder

    document = libsbml.SBMLDocument(3, 2)
    model = document.createModel()
    place = model.createCompartment()
    for what, value in (("Id", "v"), ("Constant", True), ("Size", 1.0), ("SpatialDimensions", 3)):
        getattr(place, f"set{what}")(value)
    for name, value in case["values"].items():
        one = model.createParameter()
        for what, is_ in (("Id", name), ("Value", float(value)), ("Constant", True)):
            getattr(one, f"set{what}")(is_)
    for name, value in case["initial"].items():
        one = model.createSpecies()
        for what, is_ in (("Id", name), ("Compartment", "v"), ("InitialConcentration", float(value)), ("Constant", False),
                          ("BoundaryCondition", False), ("HasOnlySubstanceUnits", False)):
            getattr(one, f"set{what}")(is_)
    for name, text in rates(case).items():
        rule = model.createRateRule()
        rule.setVariable(name)
        rule.setMath(libsbml.parseL3Formula(text))
    libsbml.writeSBMLToFile(document, "model.xml")
    SbmlImporter("model.xml").sbml2amici("stiff_case", Path.cwd() / "built", verbose=False)
    ours = amici.import_model_module("stiff_case", Path.cwd() / "built").get_model()
    ours.set_timepoints(case["time"])
    order = list(ours.get_free_parameter_ids())
    ours.set_parameter_list([order.index(name) for name in case["free"]])
    solver, answers = ours.create_solver(), []
    solver.set_sensitivity_order(SensitivityOrder.first)
    solver.set_sensitivity_method(SensitivityMethod.forward)
    for relative, absolute in case["tolerances"]:
        solver.set_relative_tolerance(relative)
        solver.set_absolute_tolerance(absolute)
        spent, found = best(lambda: ours.simulate(solver=solver))
        answers.append(answer(spent, np.asarray(found.x), np.moveaxis(np.asarray(found.sx), 1, 2)))
    return answers


if __name__ == "__main__":
    tools = {"diffsol": by_diffsol, "diffrax": by_diffrax, "amici": by_amici}
    answer_as_peer(lambda peer, case: tools[peer](case))
