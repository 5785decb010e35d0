"""Model text: how is a model of equations printed for its reader?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_text(said: Mapping[str, Any]) -> str:
    """All that a definition says, a line each."""
    units = said["units"]

    def unit(name: str) -> str:
        return f" [{units[name]}]" if units.get(name) else ""

    lines = [f"EquationModel {said['name']}".rstrip()]
    rates = said.get("next", said.get("states"))
    moved = f"(t + {said['sample_time']!r})" if "sample_time" in said else "'"
    for mode, text in said.get("modes", {"": {"rate": rates}}).items():
        lines += [f"  mode {mode}" + (f" where {text['invariant']}" if "invariant" in text else "")] * bool(mode)
        lines += [f"  {'  ' * bool(mode)}{name}{moved} = {text['rate'][name]}" for name in rates]
    lines += [f"  0 = {text} gives {name}" for name, text in said.get("algebraic", {}).items()]
    lines += [f"  {each['source']} -> {each['target']} when {each['when']}" for each in said.get("transitions", ())]
    lines += [f"  output {name} = {text}{unit(name)}" for name, text in said["outputs"].items()]
    lines += [f"  with {name} = {text}" for name, text in said["definitions"].items()]
    lines += [f"  table {name} at {', '.join(f'{knot:g}' for knot in table['knots'])}{', smooth' * ('smooth' in table)}"
              for name, table in said.get("tables", {}).items()]
    lines += [f"  constant {name} = {value!r}{unit(name)}" for name, value in said["constants"].items()]
    for kind, names in (("states", list(rates)), ("algebraic", list(said.get("algebraic", ()))), ("inputs", said["inputs"]),
                        ("parameters", said["parameters"])):
        lines += [f"  {kind}: {', '.join(name + unit(name) for name in names)}"] * bool(names)
    return "\n".join(lines)
