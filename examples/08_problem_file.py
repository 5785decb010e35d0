"""The same without Python: a problem file, the command line, and a folder of results.

This script only writes two text files and calls the commands, as a shell would. Each ends with an exit code that a
script can trust: 0 good, 1 no convergence, 2 wrong input.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "cooling")
folder.mkdir(parents=True, exist_ok=True)

# A cup of tea cools down: T' = -rate (T - room), measured every 20 s to half a degree, in a file with decimal commas.
rng = np.random.default_rng(1)
rows = [f"{t};{21 + 62 * np.exp(-0.004 * t) + 0.5 * rng.standard_normal():.2f}".replace(".", ",")
        for t in range(0, 1200, 20)]
(folder / "tea.csv").write_text("\n".join(["t [s];temperature [degC]", *rows]) + "\n")

(folder / "tea.toml").write_text("""
[model]
states  = { T = "-rate*(T - room)" }
outputs = { temperature = "T" }

[[experiment]]
file = "tea.csv"
time = "t"
outputs.temperature = { gaussian = 0.5 }

[parameters]
rate = { start = 0.01, lower = 0, unit = "1/s" }
room = { start = 15, unit = "degC" }

[initial_states]
T = { start = 90, unit = "degC" }

[method]
kind = "single_shooting"
""")


def dynident(*words: str) -> None:
    print("$ dynident", *words)
    done = subprocess.run([sys.executable, "-m", "dynident", *words], cwd=folder, check=False)
    if done.returncode:
        sys.exit(done.returncode)


dynident("check", "tea.toml")
dynident("fit", "tea.toml", "--out", "results")

saved = json.loads((folder / "results" / "estimate.json").read_text())
low, high = saved["intervals"]["of"]["rate"]
print(f"\nPer 1000 s the rate is between {1e3 * low:.2f} and {1e3 * high:.2f}; the truth is 4.")
