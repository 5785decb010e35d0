"""Parquet and MAT files: the same columns, the same experiment, the same faults."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io

from dynident.errors import NotSupported, ProblemError
from dynident.io.readers.csv import read_csv
from dynident.io.readers.tables import read_mat, read_parquet, read_table
from dynident.problem.noise import Gaussian

TIME = [0.0, 0.5, 1.0]
INPUT = [1.5, 2.5, -3.0]
OUTPUT = [10.0, np.nan, 30.0]


@pytest.fixture(params=["csv", "parquet", "mat"])
def record(request, tmp_path):
    """Write the named columns in one of the formats."""
    def write(**columns):
        path = tmp_path / f"run.{request.param}"
        if request.param == "parquet":
            pa.parquet.write_table(pa.table(columns), path)
        elif request.param == "mat":
            scipy.io.savemat(path, columns)
        else:
            rows = zip(*columns.values(), strict=True)
            path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
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
    with pytest.raises(ProblemError, match=r"run\.\w+ has no column 'voltgae'. Did you mean 'voltage'?"):
        read_table(record(t=TIME, voltage=INPUT), time="t", inputs={"u": "voltgae"})


def test_every_format_says_where_time_goes_back_and_where_an_input_is_missing(record):
    path = record(t=[0.0, 2.0, 1.0], u=OUTPUT)
    with pytest.raises(ProblemError) as error:
        read_table(path, time="t", inputs=["u"])
    told = str(error.value)
    place = "line 3" if path.suffix == ".csv" else "row 2"
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


def test_mat_version_7_3_says_how_to_save_it(tmp_path):
    path = tmp_path / "run.mat"
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(header + bytes(384) + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(NotSupported, match=r"save\('run.mat', '-v7'\)"):
        read_mat(path, time="t")


@pytest.mark.parametrize(("suffix", "reader"), [("parquet", read_parquet), ("mat", read_mat)])
def test_damaged_files_are_named(tmp_path, suffix, reader):
    path = tmp_path / f"run.{suffix}"
    path.write_bytes(b"this is not such a file" * 20)
    with pytest.raises(ProblemError, match=f"run.{suffix} is not a readable"):
        reader(path, time="t")


def test_an_unknown_suffix_lists_the_readers(tmp_path):
    path = tmp_path / "run.xlsx"
    path.write_bytes(b"")
    with pytest.raises(NotSupported, match=r"no reader for '.xlsx' files. Known: .csv"):
        read_table(path, time="t")


def test_read_table_passes_the_options_of_text_files_on(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("0;1\n1;2\n")
    run = read_table(path, time=0, outputs={"y": 1}, separator=";")
    np.testing.assert_array_equal(run.outputs["y"], read_csv(path, time=0, outputs={"y": 1}).outputs["y"])
