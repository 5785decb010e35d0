"""Pictures of README and manual, made from the demo: a fit with its residuals, a profile, the report page.

    python tools/pictures.py docs/_static/report        (make pictures)

What each picture shows is written beside them as numbers (`pictures.json`); a test computes these again and asks for new
pictures where they differ. The page is photographed by Chromium, in light and dark and in two widths; without one, its
pictures stay as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

import dynident as di
from dynident.demo import copy_to
from dynident.report.chart_svg import drawn
from dynident.report.charts import Chart, Curve, Panel
from dynident.report.estimate_charts import profile_chart
from dynident.report.figures import chart_figure
from dynident.report.html_report import VERDICT
from dynident.report.sections import SECTIONS
from dynident.report.signal_chart import fitted_records, signal_chart

matplotlib.use("Agg")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--virtual-time-budget=3000")
SCREENS = {"light_1280": (1280, 1500), "dark_1280": (1280, 1500), "light_390": (390, 1500), "dark_390": (390, 1500)}  # pixels
NARROWEST = 500  # pixels of a window that Chromium opens without a head; a narrower page is a frame in it
ASSETS = ("page.html", "style.css")
COLOURS = 96  # of a picture; the page has few
DPI = 120


def demo_estimate(folder: Path) -> di.Estimate:
    """The demo, fitted and validated."""
    problem, *_ = copy_to(folder)
    said = di.read_problem(problem)
    estimate = di.identify(said.problem, said.method, progress=False)
    return replace(estimate, validations=tuple(estimate.validate(record) for record in said.validation))


def saturation_profile() -> tuple[di.Profile, str]:
    """A reaction that saturates, seen in eleven samples: its constant has an interval that no ± could say."""
    time = np.linspace(0, 10, 11)
    model = di.EquationModel(states={"x": "-vmax*x/(km + x)"})
    truth = di.simulate(model, {"vmax": 0.6, "km": 1.5}, di.Experiment(time, outputs={}, initial={"x": 3.0}))
    measured = truth.states["x"] + 0.05 * np.random.default_rng(4).standard_normal(time.size)
    run = di.Experiment(time, outputs={"x": measured}, noise={"x": di.Gaussian(0.05)}, initial={"x": 3.0})
    problem = di.Problem(model, [run], [di.Parameter("vmax", 0.5, 0, 20), di.Parameter("km", 1, 0, 50)])
    return di.profile(di.identify(problem, progress=False), ["km"]), "km"


def charts(estimate: di.Estimate) -> dict[str, Chart]:
    """What the drawn pictures show, as values."""
    profile, name = saturation_profile()
    return {"fit": signal_chart(fitted_records(estimate)[0], estimate.noise_std, 4000, inputs=False),
            "profile": profile_chart(profile, name, "")}


def shown_numbers(drawn_charts: dict[str, Chart]) -> dict[str, list]:
    """Per picture, panel and curve: its name, how many points, the smallest and the largest number."""
    return {name: [[panel.title, [[c.name, int(np.size(c.y)), float(np.nanmin(c.y)), float(np.nanmax(c.y))]
                                  for c in panel.curves]] for panel in chart.panels] for name, chart in drawn_charts.items()}


def page_recipe() -> str:
    """Changes where the look of the page does: its style and template, its sections, and how a chart is drawn on it."""
    assets = resources.files("dynident.report").joinpath("assets")
    line = Curve(np.arange(5.0), np.arange(5.0), "line")
    parts = [*(assets.joinpath(name).read_text(encoding="utf-8") for name in ASSETS), VERDICT,
             *(section.title for section in SECTIONS), str(drawn(Chart([Panel("panel", [line], 100)], "across", "a line")))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def save_small(picture: Image.Image, path: Path) -> None:
    """With a palette: a tenth of the size, and nobody sees it."""
    few = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def photograph(page: Path, folder: Path) -> Iterable[Path]:
    """The top of the page, as a reader meets it."""
    for name, (width, height) in SCREENS.items():
        opened = page
        if width < NARROWEST:
            opened = page.with_name(f"frame_{width}.html")
            opened.write_text(f'<!doctype html><style>body {{ margin: 0 }} iframe {{ border: 0; width: {width}px; height: '
                              f'{height}px }}</style><iframe src="{page.name}"></iframe>', encoding="utf-8")
        dark = ["--blink-settings=preferredColorScheme=0"] if name.startswith("dark") else []
        raw = page.with_name(f"{name}.png")
        command = [BROWSER or "", *QUIET, *dark, "--allow-file-access-from-files", f"--user-data-dir={page.parent / 'profile'}",
                   f"--window-size={max(width, NARROWEST)},{height}", f"--screenshot={raw}", opened.as_uri()]
        subprocess.run(command, capture_output=True, timeout=120, check=True)
        target = folder / f"page_{name}.png"
        save_small(Image.open(raw).crop((0, 0, width, height)), target)
        yield target


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        estimate = demo_estimate(Path(made))
        drawn_charts = charts(estimate)
        for name, chart in drawn_charts.items():
            figure, held = chart_figure([chart], width=8.0 if name == "fit" else 5.5), io.BytesIO()
            figure.savefig(held, dpi=DPI, format="png")
            save_small(Image.open(held), folder / f"{name}.png")
        if BROWSER is None:
            print("No Chromium here: the pictures of the page stay as they are.", file=sys.stderr)
        else:
            list(photograph(di.report.html(estimate, Path(made) / "report.html",
                                           command="dynident fit servo.toml --out results"), folder))
    kept = {"numbers": shown_numbers(drawn_charts), "page": page_recipe(),
            "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.png"))}}
    (folder / "pictures.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
