"""Does the tree keep the order that CONTRIBUTING promises: layers, names that occur once, a glossary that is complete?"""

from __future__ import annotations

import ast
import importlib.util
import logging
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import dynident as di
from dynident import tolerances

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("counts", ROOT / "tools" / "counts.py")
counts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(counts)
SOURCE = ROOT / "src" / "dynident"
GLOSSARY = ROOT / "docs" / "design" / "glossary.md"
CORE = ("problem", "codegen", "models", "integrators", "transcription", "linalg", "solvers", "statistics", "estimate",
        "methods", "verbs")
FAMILIES = ("black_box", "kalman", "kalman/prediction_error", "boundary/solve_bvp", "boundary/smoothing", "set_membership",
            "inverse_dynamics")
LONGEST_FILE, LONGEST_FUNCTION = 420, 40  # lines
DECIDING = re.compile(r"TOLERANCE|THRESHOLD|SETTLED|CONVERG|(^|_)RANK|SINGULAR|EIGENVALUE|PIVOT")  # a number that decides
COMPILED = {  # numbers of the page that a compiled loop repeats under a name of its own
    "codegen/sparse_elimination.c": {"BACKWARD_ERROR": "SPARSE_BACKWARD_ERROR"},
    "integrators/algebraic.c": {"ALGEBRAIC_STEP": "ALGEBRAIC_NEWTON_STEP", "ALGEBRAIC_NOISE": "ALGEBRAIC_NEWTON_ROUNDING",
                                "SMALLEST_PIVOT": "ALGEBRAIC_PIVOT"},
    "integrators/event_location.c": {"SETTLED": "EVENT_TIME", "AT_ONCE": "EVENT_AT_ONCE", "MET": "SAME_MOTION"},
    "integrators/radau5.c": {"EXACT": "RADAU_NEWTON_STEP", "STALLED": "RADAU_NEWTON_STALLED",
                             "SHORTEST": "RADAU_SHORTEST_STEP"},
    "integrators/implicit_stages.c": {"NEWTON_SMALL": "STAGE_NEWTON_STEP", "NEWTON_NOISE": "STAGE_NEWTON_ROUNDING"},
    "fmu/model_exchange.c": {"NEWTON_SMALL": "FMU_NEWTON_STEP", "NEWTON_ENOUGH": "FMU_NEWTON_STALLED",
                             "EVENT_CLOSE": "FMU_EVENT_TIME"},
    "kalman/filter_common.c": {"COVARIANCE_PIVOT": "COVARIANCE_PIVOT",
                               "COVARIANCE_NEGATIVE_PIVOT": "COVARIANCE_NEGATIVE_PIVOT"}}

TWINS = {  # a compiled loop, and its interpreted twin beside it; of several texts compiled as one, the twin of all of them
    "boundary/solve_bvp/block_elimination.c": "block_elimination_interpreted.py", "boundary/solve_bvp/newton.c": "newton.py",
    "fmu/directional.c": "directional_interpreted.py", "fmu/model_exchange.c": "model_exchange_interpreted.py",
    "fmu/stepping.c": "stepping_interpreted.py",
    "integrators/algebraic.c": "../models/algebraic.py",
    "integrators/collocation_defects.c": "collocation_defects_interpreted.py",
    "integrators/events.c": "events_interpreted.py", "integrators/event_location.c": "events_interpreted.py",
    "integrators/propagation.c": "propagation_interpreted.py", "integrators/stages.c": "propagation_interpreted.py",
    "integrators/implicit_stages.c": "propagation_interpreted.py", "integrators/radau5.c": "radau5_interpreted.py",
    "integrators/mode_rates.c": "mode_functions.py", "integrators/radau5_events.c": "radau5_events_interpreted.py",
    "kalman/filter_adjoint.c": "filter_adjoint.py", "kalman/filter_common.c": "filter_common.py",
    "kalman/filter_extended.c": "filter_extended.py", "kalman/filter_horizon.c": "filter_horizon.py",
    "kalman/filter_initialize.c": "filter_extended.py", "kalman/filter_linear.c": "filter_linear.py",
    "kalman/filter_record.c": "filter_record.py", "kalman/filter_unscented.c": "filter_unscented.py",
    "kalman/prediction_error/innovations.c": "innovations_interpreted.py",
    "linalg/arrowhead.c": "arrowhead_interpreted.py", "linalg/bounded_least_squares.c": "bounded_least_squares.py",
    "linalg/chain_qr.c": "chain_qr_interpreted.py", "linalg/smoother_qr.c": "smoother_qr_interpreted.py",
    "solvers/trust_region.c": "globalization.py",
    "set_membership/intervals/arithmetic.c": "arithmetic.py", "set_membership/intervals/elementary.c": "tape_interpreted.py",
    "set_membership/intervals/backward.c": "tape_interpreted.py", "set_membership/intervals/tape.c": "tape_interpreted.py",
    "set_membership/intervals/fused_step.c": "../flows/hybrid_step.py"}  # which does it array by array
NO_LOOPS = {"codegen/elementary.c", "codegen/elementary_simd.c", "codegen/householder.c", "codegen/sparse_algebra.c",
            "codegen/sparse_elimination.c",
            "codegen/vectors.c", "kalman/filter_simd.c",  # functions that loops call
            "kalman/filter_export.c", "fmu/export_fmi2.c", "fmu/export_fmi3.c", "fmu/export_model.c"}  # run by others


PLACES_TO_ADD = ("cli", "papers", "report/sections", "io/readers", "models/library")  # a file there is one of many of its kind
LONG_TOGETHER = 400  # lines; what is longer together stays two files
ONE_READER = {  # read by one other file, short enough to be a paragraph of it, and yet a file: why
    "a stage of the ladder": {"automatic/curve_starts", "automatic/prediction_stage", "automatic/smoothing_stages",
                              "automatic/stopping"},
    "a term to look up": {"black_box/derivative_check", "black_box/solver_error", "boundary/smoothing/noise_em",
                          "inverse_dynamics/consistency", "inverse_dynamics/instruments", "methods/saddles",
                          "set_membership/dual_simplex", "set_membership/feasible_points", "solvers/geodesic_acceleration",
                          "workbench/spectrum"},
    "one of several propagators": {"integrators/discrete_propagation"},
    "what one kind of model asks for": {"verbs/simulated_arm"},
    "functions that are compiled": {"integrators/algebraic_functions"},
    "a format, written": {"kalman/export_c", "robots/write_urdf"},
    "a backend": {"kalman/interpreted_filter"},
    "a rule of the verdict, and who gathers what it asks": {"statistics/prediction_rule", "verbs/judged_predictions"},
    "needed by a layer above": {"kalman/prediction_error/noisy_simulation", "statistics/coverage_result",
                                       "workbench/open"},
    "runs in a process of its own, or starts one": {"workbench/jobs", "workbench/server", "workbench/worker"}}

WRITERS = {  # classes that write to themselves after they were made, and what they own that is no value
    "a process, a pool, a server or a library": {
        "AdaptivePool", "FmuInstance", "InProcessSimulator", "IsolatedFunction", "IsolatedSimulator", "PageWorker",
        "PoolExecutor", "SimulatorPool", "WarmWorkers", "WorkbenchHandler"},
    "what the page of the workbench shows": {"EventLog", "Iterations", "Keys", "Live", "LiveRecord", "Runner", "Session"},
    "what a solver of others asks again": {
        "CvodeSolver", "RelaxedShooting", "SearchedCost", "SqpProblem", "_LastEvaluation", "_NlpSolve", "_Root"},
    "what is built when it is asked for": {"DenseOnDemand", "NonlinearProgram", "ShootingProgram", "VerifiedLinearProgram"},
    "a text that is read or written": {"Lines", "NameScope", "Reader", "_FirstDate", "_StepWriter", "_display"},
    "a simulation on its way": {"InterpretedSegment", "Walk", "_RadauSegment", "_Rig"},
    "counts of simulations": {"EvaluationCache"}, "a filter that runs online": {"OnlineFilter"}, "memory": {"Workspace"}}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*folders: str) -> list[Path]:
    tops = [SOURCE / folder for folder in folders] or [SOURCE]
    return sorted(path for top in tops for path in top.rglob("*.py"))


def classes(path: Path) -> list[str]:
    return [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]


def glossary() -> dict[str, tuple[str, str, str]]:
    """Our word -> (the textbook's term, one sentence, the file)."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in GLOSSARY.read_text().splitlines()
            if line.startswith("| `")]
    return {row[0].strip("`"): (row[1], row[2], row[3].strip("`")) for row in rows}


def test_a_folder_imports_only_from_those_below_it():
    linter = pytest.importorskip("importlinter.cli", reason="needs import-linter: pip install dynident[dev]")
    before = [(logger, logger.disabled) for logger in logging.root.manager.loggerDict.values()
              if isinstance(logger, logging.Logger)]
    try:
        assert linter.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_logo=True) == 0
    finally:
        for logger, disabled in before:  # it silences all that are there, and tests that follow want to hear them
            logger.disabled = disabled


def test_a_class_name_occurs_once():
    homes = defaultdict(list)
    for path in modules():
        for name in classes(path):
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_the_name_of_a_number_or_a_type_occurs_once():
    """One home and one value; the options of a command are named as it calls them."""
    homes = defaultdict(list)
    for path in modules():
        for node in [each for each in tree_of(path).body if isinstance(each, (ast.Assign, ast.AnnAssign))]:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and names_a_number_or_a_type(target.id, node.value, path):
                    homes[target.id].append(str(path.relative_to(SOURCE)))
    again = {name: where for name, where in homes.items() if len(where) > 1}
    assert again == {}
    assert homes.keys() & {name for path in modules() for name in classes(path)} == set()


def names_a_number_or_a_type(name: str, value: ast.expr | None, path: Path) -> bool:
    if value is None or "TypeVar" in ast.dump(value) or path.parent.name == "cli":
        return False
    parts = [part for part in ast.walk(value) if not isinstance(part, (ast.Tuple, ast.operator, ast.unaryop, ast.expr_context))]
    number = all(isinstance(part, (ast.BinOp, ast.UnaryOp)) or (
        isinstance(part, ast.Constant) and type(part.value) in (int, float)) for part in parts)
    return number if name.isupper() else name[0].isupper()


def test_no_two_files_of_the_core_share_a_name():
    homes = defaultdict(list)
    for path in modules(*CORE):
        if path.name != "__init__.py":
            homes[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_the_files_of_its_pattern(family):
    assert [name for name in ("method", "setup", "run", "result") if not (SOURCE / family / f"{name}.py").is_file()] == []


def test_files_and_functions_stay_short():
    long_files = [str(p.relative_to(SOURCE)) for p in modules() if len(p.read_text().splitlines()) > LONGEST_FILE]
    functions = [(str(p.relative_to(SOURCE)), node.name) for p in modules() for node in ast.walk(tree_of(p))
                 if isinstance(node, ast.FunctionDef) and counts.body_lines(node) > LONGEST_FUNCTION]
    assert (long_files, functions) == ([], [])


def test_the_grain_that_the_design_notes_name_is_that_of_the_tree():
    said = int(re.search(r"Grain: some (\d+) lines a file", (ROOT / "docs" / "design" / "layers.md").read_text()).group(1))
    mean = int(counts.counts(SOURCE)["lines a file: mean, median, largest"].split(",")[0])
    assert 0.92 * said < mean < 1.08 * said
    assert set(counts.BEFORE) == set(counts.counts(SOURCE))


def test_state_is_a_value_but_for_those_who_own_something():
    found = {node.name for path in modules() for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)
             and any(writes_itself(member) for member in node.body if isinstance(member, ast.FunctionDef))}
    assert found - set().union(*WRITERS.values()) == set(), "make it a frozen state, and a function from one to the next"


def writes_itself(method: ast.FunctionDef) -> bool:
    if method.name in ("__init__", "__post_init__", "__new__", "__setstate__", "__enter__"):
        return False
    written = [target for node in ast.walk(method) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
               for target in (node.targets if isinstance(node, ast.Assign) else [node.target])]
    parts = [part for target in written for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return any(isinstance(part, ast.Attribute) and last_word(part.value) == "self" for part in parts)


def test_a_file_with_one_reader_has_a_reason():
    """docs/design/layers.md, on the grain: else it is a paragraph of its reader, and belongs there."""
    known = counts.modules(SOURCE)
    by_name = {counts.module_of(name, known) for path in known.values() for name in counts.NAMED.findall(path.read_text())}
    lines = {name: len(path.read_text().splitlines()) for name, path in known.items()}
    alone = {}
    for name, readers in counts.importers(known, SOURCE).items():
        place, stem = known[name].relative_to(SOURCE).with_suffix("").as_posix(), known[name].stem
        reader = min(readers, default="")
        if not (len(readers) > 1 or known[reader].name == "__init__.py" or lines[name] + lines[reader] > LONG_TOGETHER
                or place.startswith(PLACES_TO_ADD) or name in by_name or stem in ("method", "setup", "run", "result")
                or stem.endswith("_interpreted") or f"{stem}.py" in TWINS.values() or known[name].with_suffix(".c").is_file()):
            alone[place] = reader
    named = set().union(*ONE_READER.values())
    assert alone.keys() - named == set(), {place: alone[place] for place in alone.keys() - named}
    assert [place for place in named if not (SOURCE / f"{place}.py").is_file()] == []


CONTRACTS = ("model", "method", "uncertainty", "transcription", "transcribed", "problem", "estimate", "finite")


def test_a_contract_is_not_asked_whether_it_has_a_member():
    asked = [f"{path.name}:{node.lineno}" for path in modules() for node in ast.walk(tree_of(path))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr")
             and isinstance(node.args[1], ast.Constant) and last_word(node.args[0]) in CONTRACTS
             and path.name != "symbolic_source.py"]  # whose method is SymPy's
    assert not asked, "members belong into the contract: " + ", ".join(asked)


def last_word(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_every_file_says_in_its_first_line_what_it_answers():
    assert [str(p.relative_to(SOURCE)) for p in modules() if not ast.get_docstring(tree_of(p))] == []


def test_the_glossary_has_every_public_name_and_every_class_of_the_core():
    wanted = set(di.__all__) | {name for path in modules(*CORE) for name in classes(path) if not name.startswith("_")}
    assert wanted - set(glossary()) == set()


def test_the_glossary_names_files_that_hold_the_word():
    for word, (_term, sentence, file) in glossary().items():
        path = SOURCE / file
        assert path.exists(), f"{word}: {file}"
        assert sentence, word
        named = f"{path.stem} {path.parent.name} {path.read_text()}"  # a module is named by its file
        assert re.search(rf"\b{re.escape(word)}\b", named), f"{word} is not in {file}"


def test_a_term_of_a_textbooks_index_stands_in_the_file_that_the_glossary_names():
    section = GLOSSARY.read_text().split("## From a textbook's index to the file\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| `(\S+)` \|$", section, re.MULTILINE)
    missing = [(term, file) for term, file in rows if not re.search(
        r"[\s-]+".join(map(re.escape, re.split(r"[\s-]", term))), (SOURCE / file).read_text(), re.IGNORECASE)]
    assert len(rows) > 100 and missing == []


def test_a_term_that_the_glossary_calls_absent_stands_nowhere():
    section = GLOSSARY.read_text().split("## Terms of these indexes that are not here\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `(\S+)` \|$", section, re.MULTILINE)
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text().lower() for path in modules()}
    there = [(term, file) for terms, _ in rows for term in terms.lower().split(", ") for file, text in texts.items()
             if re.search(rf"\b{re.escape(term)}\b", text)]
    assert len(rows) > 10 and there == [], "it has come: it belongs into the index above"
    assert [file for _, file in rows if file not in texts] == []


def test_the_glossary_explains_and_does_not_repeat():
    """The term is what to look up in an index, the sentence what it does; neither may be the name in other letters."""
    repeated = [word for word, (term, sentence, _) in glossary().items()
                if not words_of(term) or words_of(term) == words_of(word)
                or set(words_of(sentence)) <= set(words_of(word)) | set(words_of(term)) | {"a", "an", "the", "of"}]
    assert repeated == [], "docs/design/glossary.md: say the textbook's term, and in one sentence what it is"


def words_of(text: str) -> list[str]:
    """Words in small letters, of a name too: `ActiveBounds` and active_bounds are active, bounds."""
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").lower())


def test_numbers_that_decide_convergence_or_rank_stand_on_the_page_of_tolerances():
    elsewhere = [f"{path.relative_to(SOURCE)}: {name}" for path in modules() if path.name != "tolerances.py"
                 for name in numbers_of(tree_of(path)) if DECIDING.search(name)]
    assert elsewhere == []


def test_what_is_compared_with_a_small_number_is_compared_with_a_named_one():
    """A number below a hundredth is a tolerance; a line that draws or reads a file has its own."""
    nameless = [f"{path.relative_to(SOURCE)}:{node.lineno}" for path in modules()
                if path.relative_to(SOURCE).parts[0] not in ("papers", "report", "workbench", "demo")
                for node in ast.walk(tree_of(path)) if isinstance(node, ast.Compare) for part in ast.walk(node)
                if isinstance(part, ast.Constant) and isinstance(part.value, float) and 0 < abs(part.value) < 0.01]
    assert nameless == []


def test_every_number_with_a_name_is_explained_on_the_manuals_page_of_numbers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    sys.modules.pop("extensions", None)
    from extensions.registries import other_numbers
    from extensions.registries import tolerances as deciding

    lines = (deciding() + "\n" + other_numbers()).splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")]
    assert [row for row in rows if not row[-1].strip()] == []
    shown = {name for row in rows for cell in row[:2] for name in re.findall(r"\w+", cell)}
    assert {name for path in modules() for name in numbers_of(tree_of(path))} - shown == set()


@pytest.mark.parametrize("file", COMPILED)
def test_compiled_loops_decide_by_the_numbers_of_the_page(file):
    defined = dict(re.findall(r"#define (\w+) +(-?[0-9.]+e-?[0-9]+)", (SOURCE / file).read_text()))
    assert {ours: float(defined[ours]) for ours in COMPILED[file]} == {
        ours: getattr(tolerances, name) for ours, name in COMPILED[file].items()}


def test_every_compiled_loop_has_an_interpreted_twin_beside_it():
    texts = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.c")}
    assert texts - NO_LOOPS == set(TWINS)
    assert [twin for loop, twin in TWINS.items() if not (SOURCE / loop).parent.joinpath(twin).is_file()] == []


def test_a_tolerance_says_its_unit_and_its_reason():
    page = (SOURCE / "tolerances.py").read_text().splitlines()
    assert [line for line in page if re.match(r"[A-Z_]+ = ", line) and not re.search(r"  # \S+.*", line)] == []


def numbers_of(module: ast.Module) -> list[str]:
    """Names to which a module gives a real number, alone or several in one line; whole numbers are counts and codes."""
    found = []
    for node in [each for each in module.body if isinstance(each, (ast.Assign, ast.AnnAssign))]:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = zip(target.elts, node.value.elts, strict=True) if several else [(target, node.value)]
            found += [name.id for name, value in pairs if isinstance(name, ast.Name) and is_real(value)]
    return found


def is_real(node: ast.expr | None) -> bool:
    """A number with a fraction or an exponent, or arithmetic with numbers alone in which there is one."""
    parts = list(ast.walk(node)) if node is not None else []
    numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
    return any(isinstance(number, float) for number in numbers) and all(
        isinstance(part, (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant)) for part in parts)
