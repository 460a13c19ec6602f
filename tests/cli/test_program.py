"""The program around the commands: help, exit codes and error messages."""

import os
import re
import subprocess
import sys

import pytest

import jaxkick as jk
from jaxkick import cli
from jaxkick.cli import console
from jaxkick.cli.inputs import read_dataset
from jaxkick.cli.options import Columns, Reading

from .conftest import OPTIONS, run, write

COMMANDS = ("demo", "fit", "predict", "leaderboard", "evaluate", "compare", "update")
ROW = ["2020-01-01", "A", "B", 1, 0]


def test_help_and_version_import_no_jax():
    program = (
        "import sys\n"
        "from jaxkick.cli import main\n"
        "for option in ('--help', '--version'):\n"
        "    sys.argv = ['jaxkick', option]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code\n"
        "print('jax' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith(f"jaxkick {jk.__version__}\nFalse False\n"), done.stderr


def test_the_program_keeps_compiled_programs_unless_told_otherwise(monkeypatch, tmp_path):
    folder = tmp_path / "jaxkick" / "programs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    run("leaderboard", "--help")
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ  # JAX runs already
    monkeypatch.delitem(sys.modules, "jax")
    run("--no-cache", "leaderboard", "--help")
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    run("leaderboard", "--help")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert folder.is_dir()
    (tmp_path / "file").touch()
    del os.environ["JAX_COMPILATION_CACHE_DIR"]
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "file")
    run("leaderboard", "--help")
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_missing_library_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "jaxkick.cli.app")
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert re.search(r"needs typer.*jaxkick\[cli\]", capsys.readouterr().err)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    ran = run(command, "--help")
    assert ran.code == 0
    assert "Examples:\n    jaxkick" in ran.out
    assert "Exit codes: 0 success" in ran.out


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["2020-01-02", "A", "B", "x", 0],
            r"^error: Line 3 of 'results.csv': `--score-first` \(column 'home_goals'\) is 'x'",
        ),
        (["2020-01-02", "A", "B", "", 0], "Line 3 of 'results.csv': .* and 'away_goals'.* missing"),
        (["2020-01-02", "", "B", 1, 0], "Line 3 .*`--first`.* missing name"),
        (["2020-01-02", "B", "B", 1, 0], "Line 3 .* both sides.*`--on-invalid drop`"),
        (["", "A", "B", 1, 0], "Line 3 .*`--time`.* missing or infinite"),
        (
            ["2020-01-02", "A", "B", -2, 0],
            r"^error: Line 3 of 'results.csv': `--score-first` and `--score-second` \(columns "
            r"'home_goals' and 'away_goals'\) is -2, but points must not be negative",
        ),
        (["2020-01-02", "A", "B", 1.3, 0], "Line 3 .* is 1.3, but points must be whole or half"),
        (["2020-01-02", "A", "B", "1e400", 0], "Line 3 .* is missing or infinite"),
        (["2020-01-02", "A", "B", "inf", 0], "Line 3 .* is missing or infinite"),
        (["02.01.2020", "A", "B", 1, 0], "Line 3 .* '02.01.2020'"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path, cells, message):
    results = write(tmp_path / "results.csv", [ROW, cells])
    ran = run("fit", results, *OPTIONS, "-o", tmp_path / "out")
    assert ran.code == 1
    assert ran.out == ""
    assert re.search(message, ran.err)
    assert not (tmp_path / "out").exists()


BASE = ("--time", "date", "--first", "home", "--second", "away")
SCORES = ("--score-first", "home_goals", "--score-second", "away_goals")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BASE, "give outcomes in one way"),
        ((*BASE, *SCORES, "--first-won"), "give outcomes in one way"),
        ((*BASE, *SCORES[:2]), "go together"),
        ((*BASE, "--outcome", "home_goals", "--as", "counts"), "--as needs points"),
        ((*BASE, "--first-won", "--home"), "--home-column"),
        ((*BASE, *SCORES, "--home", "--home-column", "home"), "Give one of them"),
        ((*BASE, "--outcome", "goals"), "Did you mean 'home_goals' or 'away_goals'"),
        ((*BASE, "--outcome", "home"), "both a name and an outcome"),
        ((*BASE, *SCORES, "--win", "1"), "go with --outcome"),
        ((*BASE, "--outcome", "home_goals", "--win", "1"), "go with --outcome"),
        ((*BASE, *SCORES, "--encoding", "klingon"), "unknown"),
        ((*BASE, *SCORES, "--unit", "fortnight"), "fortnight"),
        ((*BASE, *SCORES, "--scale", "abc"), "--scale is 'abc'"),
        ((*BASE, *SCORES, "--aspect", "surface"), "--aspect is 'surface'. Write NAME=COLUMN"),
        ((*BASE, *SCORES, "--aspect", "home"), "--aspect home needs --home"),
        ((*BASE, *SCORES, "--aspect", "x=surface"), "surface"),
    ],
)
def test_wrong_usage(tmp_path, options, message):
    results = write(tmp_path / "results.csv", [ROW])
    ran = run("fit", results, *options, "-o", tmp_path / "out")
    assert ran.code == 2
    assert message in ran.err
    assert "learning" not in ran.err


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["soon"], "Line 2 of 'fixtures.csv': `--time` (column 'date') is 'soon'"),
        (["2020-02-01", ""], "Line 3 of 'fixtures.csv': `--time` (column 'date') is missing"),
        (["2020.5"], "the times of the data are dates"),
    ],
)
def test_fixtures_are_checked_before_learning(tmp_path, times, message):
    results = write(tmp_path / "results.csv", [ROW])
    rows = [[time, "A", "B"] for time in times]
    fixtures = write(tmp_path / "fixtures.csv", rows, ("date", "home", "away"))
    ran = run("fit", results, *OPTIONS, "-o", tmp_path / "out", "--fixtures", fixtures)
    assert ran.code == 1
    assert message in ran.err
    assert "learning" not in ran.err
    write(fixtures, [["2020-02-01", "A", "Bee"]], ("date", "home", "away"))
    ran = run("fit", results, *OPTIONS, "-o", tmp_path / "out", "--fixtures", fixtures)
    assert ran.code == 2
    assert "`--second` (column 'away') is 'Bee', an unknown competitor" in ran.err
    assert "learning" not in ran.err


def test_model_is_saved_before_anything_can_fail(league, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ValueError("no forecast")

    monkeypatch.setattr("jaxkick.cli.fitting.pair_up", fail)
    ran = run("fit", league.results, *OPTIONS, "-o", tmp_path / "out", "--max-steps", 1)
    assert ran.code == 1
    assert (tmp_path / "out" / "model.jaxkick").is_file()


def test_unreadable_cells_are_not_dropped(tmp_path):
    rows = [ROW, ["2020-01-02", "B", "A", "x", 0]]
    results = write(tmp_path / "results.csv", rows)
    ran = run("fit", results, *OPTIONS, "-o", tmp_path / "out", "--on-invalid", "drop")
    assert ran.code == 1
    assert "Line 3 of 'results.csv': `--score-first` (column 'home_goals') is 'x'" in ran.err
    assert "always stops" in " ".join(run("fit", "--help").out.split())


def test_output_that_is_a_file(tmp_path):
    results = write(tmp_path / "results.csv", [ROW])
    ran = run("fit", results, *OPTIONS, "-o", results)
    assert ran.code == 2
    assert "which is a file" in ran.err


def test_outcomes_of_zero_and_one_are_refused(tmp_path):
    results = write(tmp_path / "results.csv", [ROW, ["2020-01-02", "B", "A", 0, 0]])
    ran = run("fit", results, *BASE, "--outcome", "home_goals", "-o", tmp_path / "out")
    assert ran.code == 1
    assert "Write losses as -1" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("leaderboard", "nothing"), 2, "there is no model 'nothing'"),
        (("leaderboard", "{model}", "--scale", "abc"), 2, "--scale is 'abc'"),
        (("leaderboard", "{model}", "--interval", 2), 2, "--interval is 2.0"),
        (("leaderboard", "{model}", "--time", 2019), 2, "the times of the data are dates"),
        (("leaderboard", "{model}", "--time", "1999-01-01"), 1, "Lower `--min-matches`"),
        (("leaderboard", "{results}"), 1, "damaged"),
        (("predict", "{model}"), 2, "--fixtures for many"),
        (("predict", "{model}", "--first", "ada", "--second", "Ben"), 2, "Did you mean 'Ada'"),
        (("predict", "{model}", "--first", "Köln", "--second", "Ben"), 2, "'Köln, 1. FC'"),
        (("predict", "{model}", "--first", "Ben", "--second", "Ben"), 2, "are both 'Ben'"),
        (("predict", "{model}", "--fixtures", "x", "--home"), 2, "Leave out --time"),
        (("evaluate", "{results}", *OPTIONS, "--as", "counts"), 2, "not counts"),
        (("compare", "{results}", *OPTIONS, "--kernel", "cubic"), 2, "must be one of matern12"),
        (("evaluate", "{results}", *OPTIONS, "--start", "1999-01-01"), 2, "2020-01-04 to"),
    ],
)
def test_errors_of_other_commands(league, arguments, code, message):
    places = {"{model}": league.folder, "{results}": league.results}
    ran = run(*(places.get(each, each) for each in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_repeated_rows_and_dropped_rows_are_noted(tmp_path):
    rows = [ROW, ROW, ["", "B", "A", 0, 0]]
    results = write(tmp_path / "results.csv", rows)
    ran = run("evaluate", results, *OPTIONS, "--on-invalid", "drop")
    assert "note: 'results.csv' repeats earlier rows: line 3." in ran.err
    assert re.search(r"note: Dropped 1 of 3 rows: 1 because `--time` .*\(line 4\)", ran.err)


def test_bugs_are_reported_as_bugs(monkeypatch, capsys):
    @console.guarded
    def broken():
        raise KeyError("x")

    with pytest.raises(console.typer.Exit) as end:
        broken()
    assert end.value.exit_code == 1
    assert "a bug in jaxkick (KeyError: 'x')" in capsys.readouterr().err
    monkeypatch.setenv("JAXKICK_TRACEBACK", "1")
    with pytest.raises(KeyError):
        broken()


@pytest.mark.parametrize(
    "error",
    [PermissionError(13, "Permission denied", "out"), ImportError("needs pyarrow")],
)
def test_unwritable_files_and_missing_libraries_are_usage_errors(error):
    @console.guarded
    def failing():
        raise error

    with pytest.raises(console.typer.Exit) as end:
        failing()
    assert end.value.exit_code == 2


def test_failed_inference_has_its_own_exit_code(capsys):
    @console.guarded
    def failing():
        raise jk.InferenceError("Inference diverged.")

    with pytest.raises(console.typer.Exit) as end:
        failing()
    assert end.value.exit_code == 3
    assert capsys.readouterr().err == "error: Inference diverged.\n"


def test_all_public_names_exist():
    for name in jk.__all__:
        assert getattr(jk, name) is not None
    assert set(jk.__all__) <= set(dir(jk))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = jk.nothing


def test_aspects_are_read_from_columns(tmp_path):
    rows = [["2020-01-01", "a", "b", 1, 0, "clay"], ["2020-02-01", "b", "a", 2, 2, "grass"]]
    header = ("date", "home", "away", "home_goals", "away_goals", "court")
    path = write(tmp_path / "results.csv", rows, header)
    columns = Columns(
        time="date", first="home", second="away", score_first="home_goals",
        score_second="away_goals", home=True, aspect=["surface=court", "home"],
    )  # fmt: skip
    data = read_dataset(path, Reading(), columns.schema(), None, "raise")
    assert data.index.aspect_names == ("skill", "clay", "grass", "home")
    ranked = Columns(
        time="date", event="away", competitor=["home"], rank="home_goals", aspect=["w=court"]
    )
    assert ranked.schema().aspects == (("w", "court"),)
