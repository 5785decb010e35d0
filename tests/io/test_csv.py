"""Text files: what is understood, what is echoed, and which line is blamed."""

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dynident.errors import ProblemError
from dynident.io.readers import csv
from dynident.io.readers.csv import read_csv
from dynident.io.readers.tables import read_table
from dynident.problem.noise import Bounded, Gaussian

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def slide(tmp_path):
    """Write a file called slide.csv with the given text or bytes."""
    def write(content, name="slide.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
    return write


def real(name):
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the shared record {name} is not beside this checkout")
    return path


def fault(path, **columns):
    with pytest.raises(ProblemError) as error:
        read_csv(path, **columns)
    return str(error.value)


def check_plain(run):
    np.testing.assert_array_equal(run.time, [0, 0.5, 1])
    np.testing.assert_array_equal(run.inputs["u"], [1.5, 2.5, -3])
    np.testing.assert_array_equal(run.outputs["y"], [10, 20.25, 30])


PLAIN = "t,u,y\n0,1.5,10\n0.5,2.5,20.25\n1,-3,30\n"


@pytest.mark.parametrize("text", [
    PLAIN,
    PLAIN.replace(",", ";"), PLAIN.replace(",", "\t"), PLAIN.replace(",", "   "), PLAIN.replace(",", " \t "),
    PLAIN.replace(",", ", "), PLAIN.replace(",", "|"), PLAIN.replace("\n", "\r\n"), PLAIN.replace("\n", "\r"),
    PLAIN.replace(",", ";").replace(".", ","), PLAIN.replace(",", "\t").replace(".", ","),
    PLAIN.replace("\n", ",\n"), PLAIN.replace("\n", ",\n").replace("t,u,y,", "t,u,y"), PLAIN.rstrip("\n"),
    "# made by a logger\n\n% and another\n" + PLAIN, "# t,u,y\n" + PLAIN.split("\n", 1)[1],
    'Logger 3, serial 17\nstarted at noon\n' + PLAIN,
    '"t","u","y"\n0,1.5,10\n0.5,2.5,20.25\n1,-3,30\n',
    '"t","u","y"\n"0","1,5","10"\n"0,5","2,5","20,25"\n"1","-3","30"\n',
    '"t"   "u"   "y"\n0   1.5   10\n0.5   2.5   20.25\n1   -3   30\n', "sep=;\n" + PLAIN.replace(",", ";"),
    "Rate,1000\nUnit,mm,1\n" + PLAIN,
    PLAIN.replace("1.5", "+1.5"), PLAIN.replace("0.5,", "# a comment among the rows\n\n0.5,"),
    PLAIN.replace("10", " 10 "),
    PLAIN.replace("t,u,y", "t [s],u [V],y (m/s)"), PLAIN.replace("t,u,y", "t,u,y\ns,V,m/s"),
    PLAIN.replace(",", "  ").replace("t  u  y", "t [s]  u [V]  y [m]"), PLAIN + "\n\n   \n"])
def test_every_way_of_writing_gives_the_same_numbers(slide, text):
    check_plain(read_csv(slide(text), time="t", inputs=["u"], outputs=["y"]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_encodings_are_understood(slide, encoding):
    path = slide(PLAIN.replace("y\n", "y [°]\n", 1).encode(encoding))
    run = read_csv(path, time="t", inputs=["u"], outputs=["y"])
    check_plain(run)
    assert run.units["y"] == "°"
    assert bool([note for note in run.notes if "read as" in note]) == (encoding not in ("utf-8", "utf-8-sig"))


def test_columns_are_found_by_position_with_and_without_header(slide):
    check_plain(read_csv(slide(PLAIN), time=0, inputs={"u": 1}, outputs={"y": 2}))
    check_plain(read_csv(slide(PLAIN.split("\n", 1)[1]), time=0, inputs={"u": 1}, outputs={"y": 2}))


def test_signals_may_have_other_names_than_columns(slide):
    path = slide("clock,drive,pos\n0,1.5,10\n0.5,2.5,20.25\n1,-3,30\n")
    run = read_csv(path, time="clock", inputs={"u": "drive"}, outputs={"y": ("pos", Gaussian(0.1))})
    check_plain(run)
    assert run.noise["y"] == Gaussian(0.1)


def test_noise_is_estimated_unless_given(slide):
    assert read_csv(slide(PLAIN), time="t", outputs=["y"]).noise["y"] == Gaussian()
    assert read_csv(slide(PLAIN), time="t", outputs={"y": Bounded(2)}).noise["y"] == Bounded(2)


def test_error_sizes_may_stand_in_a_column(slide):
    run = read_csv(slide("t,y [mm],s\n0,1000,1\n1,2000,2\n"), time="t", outputs={"y": ("y", Gaussian, "s")},
                   units={"y": "m"})
    assert run.noise["y"] == Gaussian([1e-3, 2e-3])


def test_the_rest_of_the_experiment_is_passed_on(slide):
    run = read_csv(slide(PLAIN), time="t", inputs=["u"], outputs=["y"], hold={"u": "linear"}, initial={"q": 1},
                   start=0.0, name="first run")
    assert (run.hold, run.initial, run.name, run.source) == ({"u": "linear"}, {"q": 1.0}, "first run", "slide.csv")


def test_a_header_of_numbers_is_a_header_if_the_caller_names_its_columns(slide):
    run = read_csv(slide("t,1,2\n0,5,6\n1,7,8\n"), time="t", outputs={"y": ("2", Gaussian())})
    np.testing.assert_array_equal(run.outputs["y"], [6, 8])


def test_time_in_milliseconds_becomes_exact_seconds_and_is_noted(slide):
    for header, unit in (("t [ms]", None), ("t(ms)", None), ("t", "ms"), ("t\nms", None)):
        text = f"{header.split(chr(10))[0]},y\n" + (f"{header.split(chr(10))[1]},m\n" if "\n" in header else "")
        run = read_csv(slide(text + "4030,1\n4031,2\n"), time="t", outputs=["y"], time_unit=unit)
        np.testing.assert_array_equal(run.time, [4.03, 4.031])
        assert run.units["time"] == "s"
        assert any("converted from ms to s" in note for note in run.notes)


def test_a_time_unit_that_contradicts_the_header_is_refused(slide):
    told = fault(slide("t [s],y\n0,1\n1,2\n"), time="t", outputs=["y"], time_unit="ms")
    assert told.startswith("slide.csv: column 't [s]' says that time is in s, but time_unit is 'ms'.")


def test_time_is_left_alone_where_no_unit_is_known(slide):
    run = read_csv(slide("Year,y\n1900,1\n1901,2\n"), time="Year", outputs=["y"])
    np.testing.assert_array_equal(run.time, [1900, 1901])
    assert "time" not in run.units


def test_time_may_be_wanted_in_hours(slide):
    run = read_csv(slide("t [min],y\n0,1\n90,2\n"), time="t", outputs=["y"], units={"time": "h"})
    np.testing.assert_allclose(run.time, [0, 1.5], rtol=1e-15)


def test_units_that_differ_are_converted_and_noted(slide):
    run = read_csv(slide("t,w [rpm],x [mm]\n0,30,5\n1,60,6\n"), time="t", outputs=["w", "x"],
                   units={"w": "rad/s", "x": "m"})
    np.testing.assert_allclose(run.outputs["w"], [np.pi, 2 * np.pi], rtol=1e-15)
    np.testing.assert_array_equal(run.outputs["x"], [0.005, 0.006])
    assert len([note for note in run.notes if "converted" in note]) == 2


@pytest.mark.parametrize(("given", "wanted"), [
    ("Hz", "rad/s"), ("rpm", "Hz"), ("Hz", "1/s"), ("1/s", "rad/s"), ("m", "kg"), ("furlong", "m"), ("°C", "K")])
def test_units_without_a_factor_between_them_are_refused(slide, given, wanted):
    told = fault(slide(f"t,w [{given}]\n0,1\n1,2\n"), time="t", outputs=["w"], units={"w": wanted})
    assert "slide.csv: column 'w [" in told and "no factor" in told


def test_one_column_may_serve_two_signals_in_two_units(slide):
    run = read_csv(slide("t,x [mm]\n0,1000\n1,2000\n"), time="t", outputs={"a": "x", "b": "x"}, units={"a": "m"})
    np.testing.assert_array_equal(run.outputs["a"], [1, 2])
    np.testing.assert_array_equal(run.outputs["b"], [1000, 2000])


def test_a_file_without_time_takes_a_sample_time(slide):
    run = read_csv(slide("y\n1\n2\n3\n"), sample_time=0.25, outputs=["y"])
    np.testing.assert_array_equal(run.time, [0, 0.25, 0.5])
    assert "either time= " in fault(slide("y\n1\n2\n"), outputs=["y"])


def test_an_empty_line_in_a_single_column_is_a_missing_sample(slide):
    run = read_csv(slide("y\n1\n\n3\n\n\n"), sample_time=1, outputs=["y"])
    np.testing.assert_array_equal(run.outputs["y"], [1, np.nan, 3])


@pytest.mark.parametrize("empty", ["", "NaN", "nan", "NA", " ", "N/A", " NaN ", "null"])
def test_an_empty_cell_is_a_missing_measurement_and_counted(slide, empty):
    run = read_csv(slide(f"t,u,y\n0,1,{empty}\n1,2,5\n"), time="t", inputs=["u"], outputs=["y"])
    np.testing.assert_array_equal(run.outputs["y"], [np.nan, 5])
    assert run.notes == ("'y' has 1 missing of 2 samples.",)


def test_the_largest_gap_is_noted(slide):
    run = read_csv(slide("t,y\n0,1\n1,1\n2,1\n7,1\n8,1\n"), time="t", outputs=["y"])
    assert run.notes == ("the largest gap in time is 5, after t = 2; the typical step is 1.",)


def test_a_clean_file_has_no_notes(slide):
    assert read_csv(slide(PLAIN), time="t", inputs=["u"], outputs=["y"]).notes == ()


def test_decimal_comma_is_noted(slide):
    run = read_csv(slide(PLAIN.replace(",", ";").replace(".", ",")), time="t", inputs=["u"], outputs=["y"])
    assert any("decimal comma" in note for note in run.notes)


def test_a_point_among_decimal_commas_is_not_guessed_at(slide):
    told = fault(slide("t;y\n0;1,5\n1;2,5\n2;1.234\n"), time="t", outputs=["y"])
    assert told.startswith("slide.csv, line 4: column 'y' holds '1.234', which is not a number.")


def test_dates_are_counted_in_seconds_from_the_first(slide):
    run = read_csv(slide("t,y\n2024-01-01 00:00,1\n2024-01-01 00:01,2\n"), time="t", outputs=["y"])
    np.testing.assert_array_equal(run.time, [0, 60])
    assert run.units["time"] == "s"
    assert run.notes == ("column 't' holds dates; time is counted in seconds from 2024-01-01T00:00:00.",)


def test_dates_in_different_zones_are_brought_together_to_the_nanosecond(slide):
    path = slide("t,y\n2024-03-31T01:59:59.999999999+01:00,1\n2024-03-31 03:00:00,5+02:00,2\n".replace(",5+", ".5+")
                 + "2024-03-31T01:00:01Z,3\n")
    run = read_csv(path, time="t", outputs=["y"])
    np.testing.assert_allclose(run.time, [0, 0.500000001, 1.000000001], rtol=0, atol=1e-15)
    assert "from 2024-03-31T00:59:59.999999999Z." in run.notes[0]


def test_dates_are_the_same_with_and_without_a_comment_between_them(slide):
    rows = [f"2024-05-01T12:00:0{k}.25;{k},5" for k in range(5)]
    clean, marked = (read_csv(slide("t;y\n" + "\n".join(rows[:2] + more + rows[2:]) + "\n"), time="t", outputs=["y"])
                     for more in ([], ["# a mark"]))
    np.testing.assert_array_equal(clean.time, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(clean.time, marked.time)


def test_a_date_that_is_none_is_refused_by_line(slide):
    told = fault(slide("t,y\n2024-01-01 00:00,1\n2024-13-01 00:01,2\n2024-01-01 00:02+01:00,3\n"), time="t", outputs=["y"])
    assert "line 3: column 't' holds '2024-13-01 00:01'" in told and "The same in 1 more place" in told


def test_dates_in_an_output_are_no_numbers(slide):
    told = fault(slide("t,y\n0,2024-01-01\n1,2024-01-02\n"), time="t", outputs=["y"])
    assert "line 2: column 'y' holds '2024-01-01', which is not a number" in told


def test_times_of_day_are_refused_with_a_way_out(slide):
    told = fault(slide("t,y\n12:00:00,1\n12:00:01,2\n"), time="t", outputs=["y"])
    assert "Write seconds from the start of the record, or dates" in told


def test_dates_that_go_back_are_refused_by_line(slide):
    told = fault(slide("t,y\n2024-01-01 00:01,1\n2024-01-01 00:00,2\n"), time="t", outputs=["y"])
    assert told.startswith("slide.csv, line 3: time goes back from 0.0 to -60.0.")


@pytest.mark.parametrize("text", [PLAIN, PLAIN.replace("y\n", "y\n# a comment\n", 1)])
def test_a_file_packed_by_gzip_is_read_as_the_file_itself(tmp_path, slide, text):
    packed = tmp_path / "slide.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    plain, unpacked = (read_table(path, time="t", inputs=["u"], outputs=["y"]) for path in (slide(text), packed))
    np.testing.assert_array_equal(plain.outputs["y"], unpacked.outputs["y"])
    assert plain.notes == unpacked.notes


def test_a_packed_file_names_its_lines_and_a_damaged_one_says_so(tmp_path):
    path = tmp_path / "slide.csv.gz"
    path.write_bytes(gzip.compress(b"t,y\n0,1\n1,oops\n"))
    with pytest.raises(ProblemError, match=r"slide.csv.gz, line 3: column 'y' holds 'oops'"):
        read_table(path, time="t", outputs=["y"])
    rows = "".join(f"{k},{k % 7}\n" for k in range(200_000))
    path.write_bytes(gzip.compress(b"t,y\n" + rows.encode())[:-1000])
    with pytest.raises(ProblemError, match=r"slide.csv.gz is damaged"):
        read_table(path, time="t", outputs=["y"])


def test_a_file_packed_otherwise_says_what_to_do(tmp_path):
    path = tmp_path / "slide.csv"
    path.write_bytes(bz2.compress(PLAIN.encode()))
    with pytest.raises(ProblemError, match=r"slide.csv is packed by bzip2. Unpack it first"):
        read_csv(path, time="t", outputs=["y"])


def test_a_ragged_row_does_not_change_the_separator(slide):
    told = fault(slide("t,y\n0,1\n1,2\n3\n"), time="t", outputs=["y"])
    assert told.startswith("slide.csv, line 4: the row has 1 column instead of 2.")


def test_separator_and_decimal_are_checked(slide):
    told = fault(slide(PLAIN), time="t", separator="::", decimal="x")
    assert "separator = '::' must be one character" in told and "decimal = 'x' must be" in told


def test_separator_and_decimal_can_be_said(slide):
    path = slide("t;y\n0;1\n1;2\n")
    run = read_csv(path, time="t", outputs=["y"], separator=";", decimal=",")
    np.testing.assert_array_equal(run.outputs["y"], [1, 2])


# What goes wrong


def test_a_misspelt_column_gets_a_suggestion_with_the_file(slide):
    told = fault(slide(PLAIN.replace("t,u,y", "time,voltage,y")), time="tiem", inputs={"u": "votlage"}, outputs=["y"])
    assert "slide.csv has no column 'tiem'. Did you mean 'time'?" in told
    assert "slide.csv has no column 'votlage'. Did you mean 'voltage'?" in told


def test_a_column_that_exists_twice_must_be_given_by_position(slide):
    assert "2 columns 'y', at positions 1, 2" in fault(slide("t,y,y\n0,1,2\n1,1,2\n"), time="t", outputs=["y"])


def test_a_name_in_a_file_without_header_asks_for_a_position(slide):
    assert "no header" in fault(slide("0,1\n1,2\n"), time="t", outputs={"y": 1})


def test_a_position_beyond_the_last_column_is_refused(slide):
    assert "slide.csv has no column 5; its 3 columns count from 0." in fault(slide(PLAIN), time=5, outputs=["y"])


def test_decimal_commas_between_commas_are_told_apart(slide):
    told = fault(slide("t,y\n0,0,1,5\n0,5,2,5\n"), time="t", outputs=["y"])
    assert "Line 1 has 2 fields, but the rows of numbers have 4. A decimal comma needs another separator" in told


def test_a_missing_input_or_time_is_an_error_with_line_and_column(slide):
    told = fault(slide("t,u,y\n0,1,1\n1,,1\n,2,1\n"), time="t", inputs=["u"], outputs=["y"])
    assert "slide.csv, line 3: input 'u' (column 'u') is missing" in told
    assert "slide.csv, line 4: time (column 't') is missing" in told


def test_text_among_numbers_is_an_error_with_line_column_and_text(slide):
    told = fault(slide("t,y\n0,1\n1,1\n2,off\n"), time="t", outputs=["y"])
    assert told.startswith("slide.csv, line 4: column 'y' holds 'off', which is not a number.")


def test_text_in_the_first_row_is_not_taken_for_a_header(slide):
    path = slide("t,y\n0,off\n1,1\n2,2\n")
    assert "slide.csv, line 2: column 'y' holds 'off'" in fault(path, time="t", outputs=["y"])


def test_text_in_a_column_nobody_asked_for_does_not_matter(slide):
    run = read_csv(slide("t,state,y\n0,idle,1\n1,busy,2\n2,idle,3\n"), time="t", outputs=["y"])
    np.testing.assert_array_equal(run.outputs["y"], [1, 2, 3])


def test_time_that_goes_back_is_an_error_with_its_line(slide):
    path = slide("# two comments\n# before\nt,y\n4.030,1\n4.031,1\n\n4.030,1\n4.2,1\n")
    assert fault(path, time="t", outputs=["y"]) == (
        "slide.csv, line 7: time goes back from 4.031 to 4.03. Sort the file, or split it into two experiments.")


def test_time_that_repeats_is_an_error_with_its_line(slide):
    assert "slide.csv, line 4: time repeats 1.0." in fault(slide("t,u\n0,1\n1,1\n1,1\n"), time="t", inputs=["u"])


def test_time_may_repeat_where_there_is_no_input(slide):
    assert read_csv(slide("t,y\n0,1\n1,1\n1,2\n"), time="t", outputs=["y"]).samples == 3


def test_an_infinite_value_is_an_error_with_its_line(slide):
    assert "slide.csv, line 3: column 'y' is infinite" in fault(slide("t,y\n0,1\n1,inf\n"), time="t", outputs=["y"])


def test_an_error_size_must_be_positive(slide):
    told = fault(slide("t,y,s\n0,1,1\n1,1,0\n"), time="t", outputs={"y": ("y", Bounded, "s")})
    assert "slide.csv, line 3: column 's' gives an error size of 0.0" in told


@pytest.mark.parametrize(("row", "count"), [("1,2", "2 columns"), ("1,2,3,4", "4 columns"), ("1", "1 column")])
def test_a_ragged_row_is_an_error_with_its_line(slide, row, count):
    told = fault(slide(f"t,u,y\n0,1,1\n{row}\n2,2,2\n"), time="t", outputs=["y"])
    assert told.startswith(f"slide.csv, line 3: the row has {count} instead of 3.")


def test_empty_files_and_lone_headers_are_refused(slide):
    assert fault(slide(""), time="t") == "slide.csv is empty. Export it again."
    assert fault(slide("\n\n"), time="t") == "slide.csv is empty. Export it again."
    assert fault(slide("# nothing\n"), time="t") == "slide.csv holds only comments. Export it again."
    assert fault(slide("t,u,y\n"), time="t") == "slide.csv has a header (t, u, y) but no row of numbers. Export it again."


def test_files_that_are_not_text_are_refused(slide):
    assert "not a text file" in fault(slide(bytes(range(256)) * 4), time="t")


def test_a_file_that_is_not_there_is_named_with_a_suggestion(slide):
    path = slide(PLAIN)
    assert "Did you mean 'slide.csv'?" in fault(path.with_name("slid.csv"), time="t")


def test_all_faults_of_a_file_are_listed_at_once_and_counted(slide):
    rows = "".join(f"{k},{'x' if k % 2 else 1},{'' if k > 15 else 2}\n" for k in range(20))
    with pytest.raises(ProblemError) as error:
        read_csv(slide("t,y,u\n" + rows + "3,1,1\n"), time="t", inputs=["u"], outputs=["y"])
    first, second, third = error.value.faults
    assert first.startswith("slide.csv, line 3: column 'y' holds 'x'") and first.endswith("The same in 9 more places.")
    assert second.startswith("slide.csv, line 18: input 'u'")
    assert third.startswith("slide.csv, line 22: time goes back from 19.0 to 3.0.")


def test_both_readers_agree_on_every_bit(slide, monkeypatch):
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500)
    path = slide("t,y\n" + "".join(f"{k},{float(number)!r}\n" for k, number in enumerate(numbers)))
    quick = read_csv(path, time="t", outputs=["y"])
    monkeypatch.setattr("dynident.io.readers.csv.read_fast", lambda *_: None)
    slow = read_csv(path, time="t", outputs=["y"])
    np.testing.assert_array_equal(quick.outputs["y"], numbers)
    np.testing.assert_array_equal(slow.outputs["y"], numbers)


def test_blocks_are_cut_at_lines(slide, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 7)
    for separator in (",", "  "):
        check_plain(read_csv(slide("# here\n" + PLAIN.replace(",", separator)), time="t", inputs=["u"], outputs=["y"]))


def test_a_clean_file_is_read_once(slide, monkeypatch):
    monkeypatch.setattr(csv, "_rows", lambda *_: pytest.fail("a second look at a clean file"))
    check_plain(read_csv(slide(PLAIN), time="t", inputs=["u"], outputs=["y"]))


@pytest.mark.slow
def test_a_large_file_is_read_in_bounded_memory(tmp_path):
    pytest.importorskip("resource")
    path = tmp_path / "wide.csv"
    rows, others = 1_000_000, 18
    column = np.round(np.random.default_rng(0).normal(size=rows), 6)
    content = {"t": np.arange(rows) / 1000, "y": column, **{f"c{k}": column for k in range(others)}}
    pa.csv.write_csv(pa.table(content), path)
    read = ("import resource, sys; from dynident.io.readers.csv import read_csv\n"
            "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = peak(); run = read_csv(sys.argv[1], time='t', outputs=['y'])\n"
            "print(peak() - before, run.samples)")
    growth, samples = subprocess.run([sys.executable, "-c", read, str(path)], capture_output=True, text=True,
                                     check=True).stdout.split()
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(samples) == rows
    assert int(growth) * unit < 100e6  # of 180 MB of text, 16 MB of numbers are wanted


# Real files


def test_blanks_as_separators_and_no_header():
    run = read_csv(real("lotka_volterra/lotka_volterra.txt"), time=0,
                   outputs={"x1": (1, Gaussian, 2), "x2": (3, Gaussian, 4)})
    assert (run.samples, run.outputs["x2"][1], run.noise["x2"]) == (11, 2.249977, Gaussian(np.full(11, 0.2)))


def test_quoted_header_and_trailing_comma():
    run = read_csv(real("silverbox/SNLS80mV.csv"), sample_time=2**14 / 1e7, inputs={"u": "V1"}, outputs=["V2"])
    assert (run.samples, run.inputs["u"][0], run.outputs["V2"][1]) == (131072, 0.0057756, 0.012971)


def test_comments_before_the_header_and_blanks_after_commas():
    run = read_csv(real("classics/hudson-bay-lynx-hare.csv"), time="Year", outputs=["Hare", "Lynx"])
    assert (run.samples, run.time[0], run.outputs["Hare"][-1]) == (21, 1900, 24.7)


@pytest.mark.parametrize(("name", "time", "output", "samples"), [
    ("emps/DATA_EMPS.csv", "t", "qm", 24841), ("cops/gasoil.csv", "t", "y2", 21), ("cops/pinene.csv", "t", "y5", 8),
    ("classics/bellman_no.csv", "t", "y", 15), ("two_exponential/two_exp_A.csv", "t", "y_lo", 10)])
def test_shared_records_are_read(name, time, output, samples):
    path = real(name)
    assert read_csv(path, time=time, outputs=[output]).samples == samples


def test_arrow_reads_from_memory_of_its_own(tmp_path, monkeypatch):
    """Its threads may outlive Python by a moment; letting go of an object of Python's would then abort the process."""
    really, shares = pyarrow.csv.read_csv, []

    def watched(reader, *options):
        shares.append((pa.total_allocated_bytes() - before) / reader.size())
        return really(reader, *options)

    path = tmp_path / "long.csv"
    path.write_text("t,y\n" + "".join(f"{k},{k / 7}\n" for k in range(20_000)))
    monkeypatch.setattr(pyarrow.csv, "read_csv", watched)
    before = pa.total_allocated_bytes()
    assert read_csv(path, time="t", outputs=["y"]).samples == 20_000
    assert shares and min(shares) >= 1


@pytest.mark.parametrize("comment", ["# pause", "%pause,1,2", "  # 0.25,5"])
def test_comments_inside_the_table_are_no_rows_and_noted(slide, comment):
    run = read_csv(slide(f"n,t,y\n1,0,1\n2,0.1,2\n{comment}\n3,0.2,3\n"), time="t", outputs=["y"])
    assert list(run.outputs["y"]) == [1, 2, 3]
    assert run.notes == ("1 comment inside the table, line 4, was passed over.",)
    many = read_csv(slide(f"t,y\n0,1\n{comment}\n{comment}\n0.1,2\n"), time="t", outputs=["y"])
    assert many.notes == ("2 comments inside the table, from line 3 on, were passed over.",)


def test_a_folder_is_not_called_missing(tmp_path):
    assert fault(tmp_path, time="t") == f"'{tmp_path}' is a folder; name a file in it."


def test_a_name_whose_blanks_are_others_in_the_file_is_found(tmp_path):
    file = tmp_path / "blanks.txt"
    file.write_text("notes of the day\nt\t\t[s]  q\t[m]\n" + "\n".join(f"{0.1 * k:.1f}  {k}" for k in range(5)))
    run = read_csv(file, time="t [s]", outputs={"q": "q [m]"})
    np.testing.assert_allclose(run.outputs["q"], np.arange(5.0))
