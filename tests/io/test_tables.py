"""Tables of every kind: the same columns, the same experiment, the same faults."""

import datetime
import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.io

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.csv import read_csv
from dynident.io.readers.tables import read_mat, read_parquet, read_table
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian

TIME = [0.0, 0.5, 1.0]
INPUT = [1.5, 2.5, -3.0]
OUTPUT = [10.0, np.nan, 30.0]


FORMATS = ["csv", "csv.gz", "parquet", "feather", "mat", "v7.3.mat", "npz", "h5", "xlsx"]


def write_xlsx(path, columns):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl writes the workbooks")
    pytest.importorskip("python_calamine", reason="the extra excel reads them")
    book = openpyxl.Workbook()
    book.active.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        book.active.append([None if isinstance(cell, float) and np.isnan(cell) else cell for cell in row])
    book.save(path)


def write_h5(path, columns):
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 reads and writes HDF5")
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values


def write_mat_7_3(path, variables):
    """As MATLAB writes it: a header of 512 bytes, arrays transposed, the class of each as an attribute."""
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 reads and writes HDF5")
    with h5py.File(path, "w", userblock_size=512) as file:
        def put(group, name, value):
            if isinstance(value, dict):
                below = group.create_group(name)
                below.attrs["MATLAB_class"] = np.bytes_("struct")
                for key, inside in value.items():
                    put(below, key, inside)
            elif isinstance(value, str):
                group[name] = np.array([[ord(c)] for c in value], dtype=np.uint16)
                group[name].attrs["MATLAB_class"] = np.bytes_("char")
            else:
                group[name] = np.atleast_2d(np.asarray(value, float).T)  # a column vector n x 1 is stored as 1 x n
                group[name].attrs["MATLAB_class"] = np.bytes_("double")

        for key, value in variables.items():
            put(file, key, value)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_text(path, columns):
    text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


WRITERS = {
    "csv": write_text, "csv.gz": write_text, "parquet": lambda path, columns: pa.parquet.write_table(pa.table(columns), path),
    "feather": lambda path, columns: pa.feather.write_feather(pa.table(columns), path),
    "mat": scipy.io.savemat, "v7.3.mat": write_mat_7_3, "npz": lambda path, columns: np.savez(path, **columns),
    "h5": write_h5, "xlsx": write_xlsx}


@pytest.fixture(params=FORMATS)
def record(request, tmp_path):
    """Write the named columns in one of the formats, by the format's own writer."""
    def write(**columns):
        path = tmp_path / f"run.{request.param}"
        WRITERS[request.param](path, columns)
        return path
    return write


def test_every_format_gives_the_same_experiment(record):
    run = read_table(record(t=TIME, u=INPUT, y=OUTPUT), time="t", inputs=["u"], outputs={"y": Gaussian(0.1)},
                     hold="linear", initial={"q": 1}, name="first")
    np.testing.assert_array_equal(run.time, TIME)
    np.testing.assert_array_equal(run.inputs["u"], INPUT)
    np.testing.assert_array_equal(run.outputs["y"], OUTPUT)
    assert (run.noise["y"], run.hold, run.initial, run.name) == (Gaussian(0.1), {"u": "linear"}, {"q": 1.0}, "first")
    assert run.notes == ("'y' has 1 missing of 3 samples.",)


def test_every_format_suggests_a_column(record):
    with pytest.raises(ProblemError, match=r"run\.[^ ]+(, sheet 'Sheet')? has no column 'voltgae'. Did you mean 'voltage'?"):
        read_table(record(t=TIME, voltage=INPUT), time="t", inputs={"u": "voltgae"})


def test_every_format_says_where_time_goes_back_and_where_an_input_is_missing(record):
    path = record(t=[0.0, 2.0, 1.0], u=OUTPUT)
    with pytest.raises(ProblemError) as error:
        read_table(path, time="t", inputs=["u"])
    told = str(error.value)
    place = "line 3" if ".csv" in path.name else "sheet 'Sheet', row 3" if path.suffix == ".xlsx" else "row 2"
    assert f"{path.name}, {place}: input 'u' (column 'u') is missing" in told
    assert "time goes back from 2.0 to 1.0." in told
    assert len(error.value.faults) == 2


def test_every_format_converts_time(record):
    run = read_table(record(t=[4030.0, 4031.0], y=[1.0, 2.0]), time="t", outputs=["y"], time_unit="ms")
    np.testing.assert_array_equal(run.time, [4.03, 4.031])
    assert run.notes == ("column 't' was converted from ms to s.",)


def test_parquet_timestamps_are_counted_in_seconds_from_the_first(tmp_path):
    path = tmp_path / "run.parquet"
    stamps = np.datetime64("2024-05-01T12:00:00", "ns") + np.array([0, 1_000_001, 2_000_000], "timedelta64[ns]")
    pa.parquet.write_table(pa.table({"when": stamps, "y": [1, 2, 3]}), path)
    run = read_parquet(path, time="when", outputs=["y"])
    np.testing.assert_array_equal(run.time, [0, 0.001000001, 0.002])


def test_parquet_text_is_refused_by_column(tmp_path):
    path = tmp_path / "run.parquet"
    pa.parquet.write_table(pa.table({"t": TIME, "y": ["a", "b", "c"]}), path)
    with pytest.raises(ProblemError, match=r"run.parquet: column 'y' holds string, not numbers."):
        read_parquet(path, time="t", outputs=["y"])


def test_parquet_nulls_are_missing_samples(tmp_path):
    path = tmp_path / "run.parquet"
    pa.parquet.write_table(pa.table({"t": TIME, "y": pa.array([1, None, 3])}), path)
    np.testing.assert_array_equal(read_parquet(path, time="t", outputs=["y"]).outputs["y"], [1, np.nan, 3])


def test_mat_structs_and_matrices_have_named_columns(tmp_path):
    path = tmp_path / "run.mat"
    scipy.io.savemat(path, {"run": {"t": TIME, "note": "text"}, "X": np.column_stack([INPUT, OUTPUT])})
    run = read_mat(path, time="run.t", inputs={"u": "X[0]"}, outputs={"y": "X[1]"})
    np.testing.assert_array_equal(run.inputs["u"], INPUT)
    np.testing.assert_array_equal(run.outputs["y"], OUTPUT)


def test_the_index_of_a_matrix_is_no_unit(tmp_path):
    path = tmp_path / "run.mat"
    scipy.io.savemat(path, {"X": np.column_stack([TIME, INPUT, INPUT])})
    asked = {"time": "X[0]", "inputs": {"u": "X[2]"}}
    run, other = (read_mat(path, outputs={"y": (column, Gaussian(0.1))}, **asked) for column in ("X[1]", "X[2]"))
    assert run.units == {} == other.units and run.notes == ()
    assert read_mat(path, **asked, outputs={"y": "X[1]"}, units={"y": "m"}).units == {"y": "m"}


def test_a_mat_variable_that_is_no_column_says_why(tmp_path):
    path = tmp_path / "run.mat"
    runs = np.zeros(2, dtype=[("t", float)])
    scipy.io.savemat(path, {"t": TIME, "z": 1j * np.array(TIME), "note": "cold", "runs": runs, "cube": np.ones((2, 2, 2)),
                            "cell": np.array([TIME, INPUT[:2]], dtype=object)})
    with pytest.raises(ProblemError) as refused:
        read_mat(path, time="t", outputs={name: name for name in ("z", "note", "runs.t", "cube", "cell", "y")})
    assert [fault.removeprefix("run.mat: ") for fault in refused.value.faults] == [
        "variable 'z' holds complex numbers; save their real part, their size or their angle.",
        "variable 'note' holds text, not numbers.",
        "variable 'runs' is an array of 2 structs; save the one that you mean as a variable of its own.",
        "variable 'cube' has 3 dimensions; save the vectors or the matrix in it as variables of their own.",
        "variable 'cell' is a cell array or an object; save the vectors in it as variables of their own.",
        "run.mat has no column 'y'. Known: t."]


def test_a_mat_file_without_any_column_says_so(tmp_path):
    path = tmp_path / "run.mat"
    scipy.io.savemat(path, {"note": "cold"})
    with pytest.raises(ProblemError, match=r"run.mat has no column of numbers, so there is no 't'"):
        read_mat(path, time="t")


def test_mat_columns_of_different_length_are_refused(tmp_path):
    path = tmp_path / "run.mat"
    scipy.io.savemat(path, {"t": TIME, "y": [1.0, 2.0]})
    with pytest.raises(ProblemError, match="'y' has 2 samples, time has 3"):
        read_mat(path, time="t", outputs=["y"])


def test_mat_7_3_structs_and_matrices_are_as_in_matlab(tmp_path):
    path = tmp_path / "run.mat"
    write_mat_7_3(path, {"run": {"t": TIME, "note": "cold"}, "X": np.column_stack([INPUT, OUTPUT])})
    run = read_mat(path, time="run.t", inputs={"u": "X[0]"}, outputs={"y": "X[1]"})
    np.testing.assert_array_equal(run.inputs["u"], INPUT)
    np.testing.assert_array_equal(run.outputs["y"], OUTPUT)
    with pytest.raises(ProblemError, match=r"run.mat: variable 'run.note' holds text, not numbers"):
        read_mat(path, time="run.t", outputs={"y": "run.note"})


def test_mat_7_3_of_another_writer_is_read(tmp_path):
    hdf5storage = pytest.importorskip("hdf5storage", reason="an independent writer of MAT 7.3, too heavy for the dev extra")
    path = tmp_path / "run.mat"
    hdf5storage.savemat(str(path), {"t": np.array(TIME), "X": np.column_stack([INPUT, OUTPUT]), "s": {"u": np.array(INPUT)}},
                        format="7.3", oned_as="column")
    run = read_mat(path, time="t", inputs={"u": "s.u"}, outputs={"y": "X[1]"})
    np.testing.assert_array_equal(run.inputs["u"], INPUT)
    np.testing.assert_array_equal(run.outputs["y"], OUTPUT)


@pytest.mark.parametrize("name", ["testdouble_6.5.1_GLNX86.mat", "testdouble_7.4_GLNX86.mat", "testhdf5_7.4_GLNX86.mat"])
def test_files_that_matlab_itself_wrote_are_read(name):
    """The row vector 0:pi/4:2*pi, saved by MATLAB 6.5, 7.4 and 7.4 as version 7.3; the files come with SciPy's tests."""
    import scipy.io.matlab

    if name.startswith("testhdf5"):
        pytest.importorskip("h5py")
    path = Path(scipy.io.matlab.__file__).parent / "tests" / "data" / name
    if not path.is_file():
        pytest.skip("this SciPy came without the files of its tests")
    run = read_mat(path, time="testdouble", outputs={"y": "testdouble"})
    np.testing.assert_allclose(run.time, np.arange(9) * np.pi / 4, rtol=1e-15)
    np.testing.assert_array_equal(run.outputs["y"], run.time)


def test_hdf5_groups_compounds_and_units(tmp_path):
    h5py = pytest.importorskip("h5py", reason="the extra hdf5 reads and writes HDF5")
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as file:
        file["log/t"] = np.array([0.0, 500, 1000])
        file["log/t"].attrs["units"] = "ms"
        file["log/rows"] = np.array([(1.5, 2), (2.5, 3), (3.5, 4)], dtype=[("u", float), ("y", int)])
        file["note"] = "cold"
    run = read_table(path, time="log/t", inputs={"u": "log/rows.u"}, outputs={"y": "log/rows.y"})
    np.testing.assert_array_equal(run.time, TIME)
    np.testing.assert_array_equal(run.outputs["y"], [2, 3, 4])
    with pytest.raises(ProblemError, match=r"variable 'note' holds text"):
        read_table(path, time="log/t", outputs={"y": "note"})


def test_a_workbook_with_titles_units_and_dates(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl writes the workbooks")
    pytest.importorskip("python_calamine", reason="the extra excel reads them")
    path = tmp_path / "run.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["nothing here"])
    sheet = book.create_sheet("run 2")
    began = datetime.datetime(2024, 5, 1, 12)
    rows = [["Bench 7"], [], ["when", "u", "y"], ["", "mV", "mm"],
            *([began + datetime.timedelta(milliseconds=250 * k), 1000 * k, None if k == 1 else 3.5] for k in range(3))]
    for row in rows:
        sheet.append(row)
    book.save(path)
    run = read_table(path, sheet="run 2", time="when", inputs=["u"], outputs=["y"], units={"u": "V"})
    np.testing.assert_allclose(run.time, [0, 0.25, 0.5], atol=1e-6)  # Excel counts days, as floats
    np.testing.assert_array_equal(run.inputs["u"], [0, 1, 2])
    assert run.units["y"] == "mm" and "1 row of text above the table, from row 1, was passed over." in run.notes
    with pytest.raises(ProblemError, match=r"run.xlsx has no sheet 'run 3'. Did you mean 'run 2'?"):
        read_table(path, sheet="run 3", time="when")


def test_a_workbook_names_the_row_of_what_is_no_number(tmp_path):
    path = tmp_path / "run.xlsx"
    write_xlsx(path, {"t": [0, 1, 2], "u": [1, "n/a", 2], "y": [1, 2, "oops"]})
    with pytest.raises(ProblemError) as refused:
        read_table(path, time="t", inputs=["u"], outputs=["y"])
    assert [fault[:60] for fault in refused.value.faults] == [
        "run.xlsx, sheet 'Sheet', row 3: input 'u' (column 'u') is mi",
        "run.xlsx, sheet 'Sheet', row 4: column 'y' holds 'oops', whi"]


def test_formulas_without_stored_values_are_said_to_be_empty(tmp_path):
    path = tmp_path / "run.xlsx"
    write_xlsx(path, {"t": [0, 1], "y": ["=A2*2", "=A3*2"]})
    with pytest.raises(ProblemError, match=r"column 'y' is empty. If it holds formulas, open the workbook and save it"):
        read_table(path, time="t", outputs=["y"])


@pytest.mark.parametrize(("name", "package", "extra"), [("run.xlsx", "python_calamine", "excel"), ("run.h5", "h5py", "hdf5")])
def test_a_reader_without_its_package_says_what_to_install(tmp_path, monkeypatch, name, package, extra):
    (tmp_path / name).write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotSupported, match=rf"{name}.*needs {package.replace('_', '-')}.*pip install 'dynident\[{extra}\]'"):
        read_table(tmp_path / name, time="t")


def test_mat_version_7_3_without_its_package_says_how_to_save_it(tmp_path, monkeypatch):
    path = tmp_path / "run.mat"
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(header.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(ProblemError, match=r"run.mat is not a readable MAT file"):
        read_mat(path, time="t")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(NotSupported, match=r"save\('run.mat', '-v7'\)"):
        read_mat(path, time="t")


def test_arrays_of_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, t=np.array(TIME), y=np.array([{}, [], ()], dtype=object))
    with pytest.raises(ProblemError, match=r"variable 'y' cannot be loaded"):
        read_table(path, time="t", outputs=["y"])


@pytest.mark.parametrize("suffix", ["parquet", "feather", "mat", "npz", "h5", "xlsx"])
@pytest.mark.parametrize("damage", [lambda whole: b"this is not such a file" * 20, lambda whole: whole[:len(whole) // 2],
                                    lambda whole: b""], ids=["another file", "half a file", "empty"])
def test_damaged_files_are_named_and_nothing_is_half_read(tmp_path, suffix, damage):
    path = tmp_path / f"run.{suffix}"
    WRITERS[suffix](path, {"t": np.arange(500.0), "y": np.arange(500.0) ** 2})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ProblemError, match=f"run.{suffix} is not a readable"):
        read_table(path, time="t", outputs=["y"])


def test_an_unknown_suffix_lists_the_readers(tmp_path):
    path = tmp_path / "run.docx"
    path.write_bytes(b"")
    with pytest.raises(NotSupported, match=r"no reader for '.docx' files. Known: .csv"):
        read_table(path, time="t")
    with pytest.raises(NotSupported, match=r"no reader for '.parquet.gz' files"):
        read_table(tmp_path / "run.parquet.gz", time="t")


def test_options_of_other_files_are_refused(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("t,y\n0,1\n")
    with pytest.raises(ProblemError, match=r"run.csv: sheet belong to workbooks; remove them"):
        read_table(path, time="t", sheet="one")


# Tables in memory, and runs


class Capsule:
    """A frame of any library that speaks Arrow's protocol, as polars does."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def pandas_frame(columns):
    return pytest.importorskip("pandas", reason="pandas is too heavy for the dev extra").DataFrame(columns)


def polars_frame(columns):
    return pytest.importorskip("polars", reason="polars is too heavy for the dev extra").DataFrame(columns)


FRAMES = {"mapping": dict, "Arrow table": pa.table, "Arrow protocol": lambda columns: Capsule(pa.table(columns)),
          "structured array": lambda columns: np.rec.fromarrays(list(columns.values()), names=list(columns)),
          "pandas": pandas_frame, "polars": polars_frame}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_experiment(make):
    frame = make({"t": TIME, "u": INPUT, "y": OUTPUT})
    run = Experiment.from_table(frame, time="t", inputs=["u"], outputs={"y": Gaussian(0.1)})
    np.testing.assert_array_equal(run.time, TIME)
    np.testing.assert_array_equal(run.inputs["u"], INPUT)
    np.testing.assert_array_equal(run.outputs["y"], OUTPUT)
    assert run.noise["y"] == Gaussian(0.1)


ZONE = datetime.timezone(datetime.timedelta(hours=2))
STAMPS = [datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000 * k, tzinfo=ZONE) for k in range(3)]


@pytest.mark.parametrize("make", [pa.table, lambda columns: Capsule(pa.table(columns)), pandas_frame, polars_frame],
                         ids=["Arrow table", "Arrow protocol", "pandas", "polars"])
def test_frames_with_dates_in_a_zone(make):
    run = Experiment.from_table(make({"when": STAMPS, "y": OUTPUT}), time="when", outputs=["y"])
    np.testing.assert_array_equal(run.time, [0, 0.25, 0.5])
    assert run.notes[0] == "column 'when' holds dates; time is counted in seconds from 2024-05-01T10:00:00Z."


def test_dates_as_text_and_durations_are_times_too():
    dates = Experiment.from_table({"when": [stamp.isoformat() for stamp in STAMPS]}, time="when")
    np.testing.assert_array_equal(dates.time, [0, 0.25, 0.5])
    durations = Experiment.from_table({"when": np.array([500, 1500], "timedelta64[ms]")}, time="when")
    np.testing.assert_array_equal(durations.time, [0.5, 1.5])
    with pytest.raises(ProblemError, match=r"time holds text that is neither a number nor a date"):
        Experiment.from_table({"when": ["noon", "night"]}, time="when")


def test_the_index_of_a_pandas_frame_can_be_its_time():
    frame = pandas_frame({"t": TIME, "y": OUTPUT}).set_index("t")
    np.testing.assert_array_equal(Experiment.from_table(frame, time="t", outputs=["y"]).time, TIME)


@pytest.mark.parametrize("wrong", [5, [1, 2], {"t": ["a", 1]}, object()])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(ProblemError, match=r"the table (is a|cannot be read)"):
        Experiment.from_table(wrong, time="t")


RUNS = {"t": [0.0, 1.0, 2.0, 0.5, 1.5], "y": [1.0, 2.0, 3.0, 4.0, 5.0], "run": [7.0, 7.0, 7.0, 9.0, 9.0]}


def test_every_format_is_split_into_runs(record):
    first, second = Experiment.from_table(record(**RUNS), time="t", outputs=["y"], split="run")
    np.testing.assert_array_equal(first.outputs["y"], [1, 2, 3])
    np.testing.assert_array_equal(second.time, [0.5, 1.5])
    assert (first.name, second.name) == ("run 7", "run 9")


def test_runs_by_text_may_alternate():
    table = {"t": [0, 0, 1, 1], "y": [1, 2, 3, 4], "who": ["a", "b", "a", "b"]}
    runs = Experiment.from_table(table, time="t", outputs=["y"], split="who", name="test")
    assert [(run.name, run.outputs["y"].tolist()) for run in runs] == [("test, who a", [1, 3]), ("test, who b", [2, 4])]


def test_runs_by_text_in_a_text_file(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("t;y;who\n0;1,5;left\n1;2;left\n0;3;right\n")
    runs = Experiment.from_table(path, time="t", outputs=["y"], split="who", decimal=",")
    assert [(run.name, run.outputs["y"].tolist()) for run in runs] == [("who left", [1.5, 2]), ("who right", [3])]


def test_a_new_run_begins_after_a_gap(record):
    path = record(t=[0.0, 1000.0, 2000.0, 9000.0, 10000.0], y=[1.0, 2.0, 3.0, 4.0, 5.0])
    first, second = Experiment.from_table(path, time="t", outputs=["y"], time_unit="ms", split={"gap": 5})
    assert (first.time.tolist(), second.time.tolist()) == ([0, 1, 2], [9, 10])
    assert (first.name, second.name) == ("part 1", "part 2") and not any("gap" in note for note in first.notes)


def test_faults_of_all_runs_are_said_at_once_with_their_place(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("t,u,run\n0,1,a\n1,,a\n0,1,b\n0,2,b\n")
    with pytest.raises(ProblemError) as refused:
        Experiment.from_table(path, time="t", inputs=["u"], split="run")
    assert [fault[:36] for fault in refused.value.faults] == [
        "runs.csv, line 3: input 'u' (column ", "runs.csv, line 5: time repeats 0.0. "]


@pytest.mark.parametrize(("split", "said"), [
    ("rnu", "has no column 'rnu'. Did you mean 'run'?"), ({"gap": -1}, "split = {'gap': -1}; give the column"),
    ({"gpa": 5}, "split={\"gap\": 5}"), (True, "split = True; give the column")])
def test_a_split_that_means_nothing_is_refused(split, said):
    with pytest.raises(ProblemError, match=re.escape(said)):
        Experiment.from_table(RUNS, time="t", outputs=["y"], split=split)


def test_a_row_of_no_run_is_refused():
    with pytest.raises(ProblemError, match=r"table, row 2: column 'run', which tells the runs apart, is empty"):
        Experiment.from_table({"t": [0, 1], "run": ["a", None]}, time="t", split="run")


def test_read_table_passes_the_options_of_text_files_on(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("0;1\n1;2\n")
    run = read_table(path, time=0, outputs={"y": 1}, separator=";")
    np.testing.assert_array_equal(run.outputs["y"], read_csv(path, time=0, outputs={"y": 1}).outputs["y"])
