"""Claims: the printed result is complete, honest about what is open, and safe to print anywhere."""

import io
from dataclasses import replace

import numpy as np
import pytest
import sample
from rich.console import Console

from dynident.errors import DynidentError
from dynident.problem.noise import Bounded
from dynident.report.terminal import comparison_text, estimate_text, print_estimate


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{name} "))


def test_str_of_an_estimate_is_its_text():
    assert str(sample.estimate()) == estimate_text(sample.estimate())


def test_open_interval_carries_no_number():
    line = line_of(estimate_text(sample.estimate()), "offset")
    assert "unidentifiable" in line
    assert "±" not in line and "[" not in line


def test_half_open_interval_says_its_one_end():
    made = sample.estimate()
    loose = replace(made.uncertainty, std_if_released={})
    line = line_of(estimate_text(replace(made, uncertainty=loose)), "Fc")
    assert "at least 0" in line and "±" not in line


def test_held_values_are_marked():
    assert "fixed" in line_of(estimate_text(sample.estimate()), "gain")


def test_equal_held_values_of_many_experiments_take_one_line():
    text = estimate_text(sample.estimate(experiments=5))
    assert text.count("fixed") == 2  # gain, and v(0) of all
    assert "in 5 experiments" in line_of(text, "v(0)")


def test_held_names_with_brackets_stay_apart():
    made = sample.estimate()
    values = dict(made.values) | {"[a]": 1.0, "[b]": 1.0}
    text = estimate_text(replace(made, values=values))
    assert "fixed" in line_of(text, "[a]") and "fixed" in line_of(text, "[b]")


def test_the_verdict_stands_first_and_convergence_below_it():
    made = sample.estimate()
    text = estimate_text(made)
    assert text.startswith(f"[{made.verdict.grade}] ")
    assert " ".join(text.split()).startswith(f"{made.verdict} Converged. ")


def test_failure_stands_out_below_the_verdict():
    text = estimate_text(sample.not_converged())
    assert "At the best point found, which is no optimum" in " ".join(text.split("***")[0].split())
    assert "*** NOT CONVERGED ***" in text.splitlines()


def test_a_status_that_claims_convergence_does_not_hide_failure():
    text = estimate_text(sample.estimate(converged=False, status="Converged to a point that is no optimum."))
    assert "*** NOT CONVERGED ***" in text.splitlines()


def test_verdict_is_not_said_twice():
    for status, said in [("converged: small step", "Converged. Small step."), ("Converged", "Converged."),
                         ("Converged after 8 iterations.", "Converged after 8 iterations.")]:
        assert said in estimate_text(sample.estimate(status=status)).splitlines()


def test_meaning_fit_noise_notes_counts_and_times_are_said():
    made = sample.estimate()
    text = " ".join(estimate_text(made).split())
    for said in [made.uncertainty.meaning, "position 98.3 %", "5 mm/s (std, given)", "1 mm (std, estimated)",
                 *made.notes, "9 iterations", "14 simulations", "compile 210 ms", "integrate 340 ms", "solve 18 ms"]:
        assert said in text


def test_a_bound_is_not_called_a_standard_deviation():
    made = sample.estimate()
    bounded = {"position": Bounded(2e-3), "velocity": Bounded(0.01)}
    records = [replace(experiment, noise=bounded) for experiment in made.problem.experiments]
    text = estimate_text(replace(made, problem=made.problem.replace(experiments=records), noise_std={}))
    assert "± 2 mm (guaranteed bound)" in text and "std" not in text


@pytest.mark.parametrize("name", ["M", "mass_of_the_" + "very_" * 30 + "long_slide", "[bold]M[/bold]", "質量" * 30])
def test_no_line_is_wider_than_80_columns(name):
    from rich.cells import cell_len

    text = estimate_text(sample.estimate(experiments=12, parameter=name))
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_markup_in_a_name_is_text():
    assert "[bold]M[/bold]" in estimate_text(sample.estimate(parameter="[bold]M[/bold]"))


def test_a_name_cannot_steer_the_terminal():
    text = estimate_text(sample.estimate(parameter="M\x1b[2J\r"))
    assert "\x1b" not in text and "\r" not in text
    assert r"M\x1b[2J\r" in text


def test_text_has_no_colour_and_console_has():
    page = io.StringIO()
    print_estimate(sample.estimate(), Console(file=page, force_terminal=True, color_system="standard", width=100))
    assert "\x1b[" in page.getvalue()
    assert "\x1b[" not in estimate_text(sample.estimate())


def test_text_prints_on_a_western_windows_console():
    for text in (estimate_text(sample.not_converged()),
                 comparison_text({"a": sample.estimate(), "b": sample.not_converged()})):
        assert text and text.encode("cp1252").decode("cp1252") == text  # raises at the first sign that it does not have


def test_an_estimate_with_nothing_beside_its_values_prints():
    bare = sample.estimate(notes=(), counts={}, times={}, statistics={}, noise_std={}, history=())
    assert "49.87" in estimate_text(bare)


def test_comparison_has_a_column_per_label_and_says_that_they_agree():
    text = comparison_text({"single": sample.estimate(), "multiple": sample.shifted(sample.estimate(), "M", 0.01)})
    assert "They agree" in text
    assert "(M)" in text  # the largest difference
    header = text.splitlines()[0]
    assert "single" in header and "multiple" in header


def test_comparison_names_what_differs():
    text = comparison_text({"single": sample.estimate(), "multiple": sample.shifted(sample.estimate(), "M", 5.0)})
    assert "do NOT agree on M:" in text


def test_who_knows_less_agrees_if_its_interval_holds_the_other_value():
    """A filter's value need not lie in the narrow interval of a batch fit of the same record."""
    narrow = sample.estimate()
    low, high = narrow.uncertainty.interval("M")
    wide = replace(narrow, uncertainty=replace(narrow.uncertainty, corrected=100 * narrow.uncertainty.matrix))
    near, far = sample.shifted(wide, "M", 2 * (high - low)), sample.shifted(wide, "M", 20 * (high - low))
    assert "the wider one holds" in " ".join(comparison_text({"batch": narrow, "filter": near}).split())
    assert "do NOT agree on M:" in comparison_text({"batch": narrow, "filter": far})


def test_an_estimate_that_failed_does_not_decide_on_agreement():
    text = comparison_text({"a": sample.estimate(), "b": sample.estimate(),
                            "c": replace(sample.shifted(sample.estimate(), "M", 5.0), converged=False)})
    assert "They agree" in text and "not counted: c" in " ".join(text.split())


def test_comparison_of_many_methods_stays_within_80_columns():
    labels = ("single_shooting", "multiple_shooting", "full_discretization", "boundary_value", "set_membership")
    text = comparison_text(dict.fromkeys(labels, sample.estimate()))
    assert max(map(len, text.splitlines())) <= 80
    assert all(label in text for label in labels)


def test_nothing_to_compare_is_an_error():
    with pytest.raises(DynidentError, match="nothing to compare"):
        comparison_text({})


def test_unknown_uncertainty_is_said():
    made = sample.estimate()
    broken = replace(made.uncertainty, values=np.full(5, np.nan))
    assert "not known" in line_of(estimate_text(replace(made, uncertainty=broken)), "M")


def test_unit_of_the_model_stands_where_the_declaration_is_silent():
    made = sample.estimate()
    silent = tuple(replace(p, unit="") for p in made.problem.parameters)
    model = sample.ModelWithUnits()
    text = estimate_text(replace(made, problem=made.problem.replace(model=model, parameters=silent)))
    assert line_of(text, "M").split()[-1] == "t"
    assert line_of(text, "q(0)").split()[-1] == "mm"
    assert line_of(text, "v(0)").split()[-1] == "mm/s"  # held


def test_many_differences_do_not_push_the_labels_apart():
    labels = ("single_shooting", "multiple_shooting", "full_discretization")
    made = sample.estimate()
    far = made
    for name in made.problem.names:
        far = sample.shifted(far, name, 50.0)
    text = comparison_text(dict(zip(labels, (made, far, made), strict=True)))
    assert all(label in text.splitlines()[0] for label in labels)


def test_counts_read_as_words():
    text = estimate_text(sample.estimate(counts={"boxes": 1, "iterations": 2, "matches": 1, "entries": 1, "passes": 3}))
    assert "1 box, 2 iterations, 1 match, 1 entry, 3 passes" in " ".join(text.split())


def test_counts_of_what_is_no_plain_noun_read_as_words():
    counts = {"steps_per_sample": 16, "reached the best": 6, "interrupted": 1}
    text = " ".join(estimate_text(sample.estimate(counts=counts)).split())
    assert "16 steps per sample, 6 reached the best, 1 interrupted;" in text
    assert "1 step per sample" in " ".join(estimate_text(sample.estimate(counts={"steps_per_sample": 1})).split())


def test_no_number_is_broken_over_two_lines():
    for width in range(1, 80):
        counts = {"x" * width: 2, "variables": 1285, "equalities": 12_345_678}
        lines = estimate_text(sample.estimate(counts=counts)).splitlines()
        assert any("1,285" in line for line in lines) and any("12,345,678" in line for line in lines)


def test_method_that_minimises_nothing_has_no_cost():
    assert "cost" not in estimate_text(sample.estimate(cost=float("nan")))


def test_jacobians_are_written_with_their_capital():
    assert "10 Jacobians" in estimate_text(sample.estimate())
