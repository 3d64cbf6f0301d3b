"""What a user of the command line sees: exit status, selection, and where things are printed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from streamlint import __version__, cli
from streamlint.finding import Confidence, LeftOut, Report, SourceError, Statistics
from streamlint.output import style
from streamlint.run.stop import Stopped, Terminated
from tests.cli_support import SOURCE, FakeEngine, finding, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli_support import Result

Capture = pytest.CaptureFixture[str]


def codes(result: Result) -> list[str]:
    return [each["code"] for each in json.loads(result.out)["findings"]]


def test_clean_code_exits_with_0(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    result = run(capsys, "check", "train.py")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("No findings in 1 file, 1 with GPU streams, in ")


def test_findings_exit_with_1_and_check_may_be_left_out(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    engine.findings = [finding()]
    short, long = run(capsys, "train.py", "-q"), run(capsys, "check", "train.py", "-q")
    assert short == long
    assert short.status == 1
    assert run(capsys, "--output-format", "concise", "train.py").status == 1, "options may come first"


def test_exit_zero_hides_the_findings_status_but_not_an_error(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    engine.findings = [finding()]
    assert run(capsys, "train.py", "--exit-zero").status == 0
    engine.errors = [SourceError("broken.py", 3, "invalid syntax")]
    result = run(capsys, "train.py", "--exit-zero")
    assert result.status == 2
    assert "streamlint: error: broken.py:3: invalid syntax\n" in result.err
    assert "SL101" in result.out, "the other files are reported all the same"


def test_a_missing_path_is_named_and_the_rest_is_analyzed(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    result = run(capsys, "nowhere.py", "train.py", "--output-format", "json")
    assert result.status == 2
    assert result.err.startswith("streamlint: error: nowhere.py: no such file or folder\n")
    assert engine.names() == ["train.py"]
    assert json.loads(result.out)["errors"] == [
        {"path": "nowhere.py", "line": 1, "message": "no such file or folder"}
    ]


def test_advice_is_off_until_selected(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding("SL101"), finding("SL901")]
    as_json = ("train.py", "--output-format", "json")
    assert codes(run(capsys, *as_json)) == ["SL101"]
    assert codes(run(capsys, *as_json, "--select", "SL9")) == ["SL901"]
    assert codes(run(capsys, *as_json, "--select", "ALL")) == ["SL101", "SL901"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ignore", "SL101"], ["SL102"]),
        (["--ignore", "SL1"], []),
        (["--ignore", "ALL"], []),
        (["--ignore", "SL1", "--select", "SL101"], ["SL101"]),
        (["--select", "SL101,SL102", "--ignore", "SL101"], ["SL102"]),
        (["--select", "sl102", "--select", "SL001"], ["SL102"]),
        (["--select", "unordered-write"], ["SL102"]),
        (["--ignore", "Unordered-Write"], ["SL101"]),
    ],
)
def test_selection(
    project: Path, engine: FakeEngine, capsys: Capture, options: list[str], expected: list[str]
) -> None:
    engine.findings = [finding("SL101"), finding("SL102", place=(9, 0, 5))]
    assert codes(run(capsys, "train.py", "--output-format", "json", *options)) == expected


def test_an_unknown_code_is_a_usage_error_with_a_suggestion(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    result = run(capsys, "train.py", "--select", "SL110")
    assert (result.status, result.out) == (2, "")
    assert result.err == "streamlint: error: unknown rule or prefix `SL110`; did you mean `SL102`?\n"
    result = run(capsys, "train.py", "--select", "unordered-reads")
    assert result.err.endswith("unknown rule or prefix `unordered-reads`; did you mean `unordered-read`?\n")


def test_minimum_confidence(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [
        finding(place=(line, 0, 4), confidence=level) for line, level in enumerate(Confidence, 1)
    ]
    counts = {
        level: len(codes(run(capsys, ".", "--output-format=json", f"--min-confidence={level}")))
        for level in ("possible", "likely", "certain")
    }
    assert counts == {"possible": 3, "likely": 2, "certain": 1}
    assert len(codes(run(capsys, ".", "--output-format=json"))) == 2


def test_findings_are_sorted_by_place(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding(place=(9, 0, 5)), finding("SL102"), finding("SL101")]
    rows = json.loads(run(capsys, ".", "--output-format=json").out)["findings"]
    assert [(row["line"], row["code"]) for row in rows] == [(8, "SL101"), (8, "SL102"), (9, "SL101")]


def test_only_full_output_has_its_summary_on_stdout(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    engine.findings = [finding()]
    concise = run(capsys, "train.py", "--output-format", "concise")
    assert concise.out.count("\n") == 1
    assert "Found 1 finding (1 likely) in 1 file" in concise.err
    full = run(capsys, "train.py")
    assert "Found 1 finding (1 likely) in 1 file" in full.out
    assert run(capsys, "train.py", "-q", "--output-format", "concise").err == ""


def test_statistics(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding("SL102"), finding("SL102", place=(9, 0, 5)), finding("SL101")]
    engine.statistics = Statistics(exact=5, cut=1)
    out = run(capsys, "train.py", "--statistics", "-q", "--output-format", "concise").out
    assert out.splitlines()[-3:] == [
        "     2  SL102  unordered-write",
        "     1  SL101  unordered-read",
        "Functions with GPU streams: 5 followed exactly, 1 cut at a budget, 0 skipped.",
    ]


def test_work_that_was_cut_short_is_never_silent(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    engine.statistics = Statistics(exact=5, cut=1, skipped=2)
    note = "3 functions were too large, too deep or too widely called to follow to the end.\n"
    assert note in run(capsys, "train.py").out
    assert note in run(capsys, "train.py", "--output-format", "json").err
    left = tuple(LeftOut("train.py", name, "paths", 1) for name in "ab")
    engine.statistics = Statistics(exact=5, cut=1, left_out=left)
    assert "2 functions were too large, too deep or" in run(capsys, "train.py").out


def test_standard_input_stands_in_for_a_file(
    project: Path, engine: FakeEngine, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SOURCE.replace("model(batch)", "m(batch)  # streamlint: ignore[SL101] unsaved")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    engine.findings = [finding()]
    result = run(capsys, "--stdin-filename", "train.py", "-")
    assert engine.overlay == {project / "train.py": text.encode()}
    assert engine.focus_names() == ["train.py"]
    assert result.status == 0, "the comment in the unsaved text counts"


def test_stdin_filename_needs_a_dash(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    result = run(capsys, "--stdin-filename", "x.py", "train.py")
    assert (result.status, result.err) == (
        2,
        "streamlint: error: --stdin-filename needs `-` among the paths\n",
    )


def test_the_whole_project_is_indexed_and_named_files_are_the_focus(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    (project / "package").mkdir()
    (project / "package" / "streams.py").write_text("x = 1\n")
    run(capsys, "train.py", "--jobs", "3")
    assert engine.names() == ["package/streams.py", "train.py"]
    assert engine.focus_names() == ["train.py"]
    assert engine.settings.jobs == 3
    run(capsys, ".")
    assert engine.focus_names() is None


def test_without_a_project_only_the_neighbours_are_indexed(
    tmp_path: Path, engine: FakeEngine, capsys: Capture
) -> None:
    for name in ("script.py", "helper.py", "other/far.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    run(capsys, tmp_path / "script.py")
    assert engine.names() == ["helper.py", "script.py"]
    assert engine.root == tmp_path


def test_a_path_that_cannot_exist_is_missing(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    long = run(capsys, "a" * 5000)
    assert long.status == 2
    assert f"{'a' * 5000}: no such file or folder\n" in long.err
    assert "/dev/null: neither a regular file nor a folder\n" in run(capsys, "/dev/null").err


def test_no_python_files_is_a_warning(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    (project / "empty").mkdir()
    result = run(capsys, "empty")
    assert result.status == 0
    assert "warning: no Python files there" in result.err


def test_an_internal_error_is_one_line_unless_debugging(
    project: Path, engine: FakeEngine, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STREAMLINT_DEBUG", raising=False)
    engine.crash = KeyError("two\nlines")
    result = run(capsys, "train.py")
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert "internal error: KeyError" in result.err
    assert "please report it" in result.err
    monkeypatch.setenv("STREAMLINT_DEBUG", "1")
    assert "Traceback" in run(capsys, "train.py").err


def test_interrupt(
    project: Path, engine: FakeEngine, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("streamlint.run.check.run", interrupt)
    assert run(capsys, "train.py").status == 130


@pytest.mark.parametrize(
    ("before", "status", "name"), [(KeyboardInterrupt, 130, "SIGINT"), (Terminated, 143, "SIGTERM")]
)
def test_a_stopped_run_tells_what_it_found_and_records_no_baseline(
    project: Path,
    engine: FakeEngine,
    capsys: Capture,
    before: type[KeyboardInterrupt],
    status: int,
    name: str,
) -> None:
    done = frozenset({project / "train.py"})
    engine.crash = Stopped(Report((finding(),), (), 2, 1), done, before())
    stopped = run(capsys, ".", "--output-format", "concise", "-q")
    assert stopped.status == status
    assert stopped.out.startswith("train.py:8:8: SL101")
    assert f"error: stopped by {name} after 1 of " in stopped.err
    assert run(capsys, ".", "--write-baseline", "known.json").status == status
    assert not (project / "known.json").exists()


def test_sigterm_ends_what_it_ended_before(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run(capsys, "train.py")
    run(capsys, "confirm", "train.py", "--plan")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "arguments", [[], ["check", "--no-such-option", "x.py"], ["--jobs", "-1", "x"], ["explain"]]
)
def test_wrong_use_exits_with_2(engine: FakeEngine, capsys: Capture, arguments: list[str]) -> None:
    result = run(capsys, *arguments)
    assert result.status == 2
    assert "usage: streamlint" in result.err
    assert not arguments or len(result.err.splitlines()) <= 3


def test_without_a_path_the_current_folder_is_checked(
    project: Path, engine: FakeEngine, capsys: Capture
) -> None:
    engine.findings = [finding()]
    here, named = run(capsys, "check", "-q"), run(capsys, "check", ".", "-q")
    assert (here, here.status) == (named, 1)


def test_help_and_version(capsys: Capture) -> None:
    assert run(capsys, "--version").out == f"streamlint {__version__}\n"
    top, check = run(capsys, "--help"), run(capsys, "check", "--help")
    assert (top.status, check.status) == (0, 0)
    assert all(command in top.out for command in cli.COMMANDS)
    assert "--min-confidence" in check.out


def test_rules_lists_every_rule(engine: FakeEngine, capsys: Capture) -> None:
    assert run(capsys, "rules").out.splitlines()[2:] == [
        "SL101  unordered-read       a stream reads too early",
        "SL102  unordered-write      a stream writes too early",
        "SL901  pageable-async-copy  a copy blocks (off unless selected)",
    ]
    rows = json.loads(run(capsys, "rules", "--output-format", "json").out)
    assert rows[-1] == {
        "code": "SL901",
        "name": "pageable-async-copy",
        "summary": "a copy blocks",
        "severity": "advice",
        "default": False,
    }


def test_explain(engine: FakeEngine, capsys: Capture) -> None:
    expected = "# SL101 unordered-read\n\nA stream reads too early.\n\nDocs of SL101.\n"
    assert run(capsys, "explain", "SL101").out == expected
    assert run(capsys, "explain", "unordered-read").out == expected
    unknown = run(capsys, "explain", "SL10l")
    assert unknown.status == 2
    assert unknown.err.startswith("streamlint: error: unknown rule `SL10l`; did you mean `SL10")


@pytest.mark.parametrize(
    ("environment", "option", "colored"),
    [
        ({}, "auto", False),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_colors(
    project: Path,
    engine: FakeEngine,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    option: str,
    colored: bool,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    engine.findings = [finding()]
    assert ("\033[" in run(capsys, "train.py", "--color", option).out) is colored


@pytest.mark.parametrize(
    ("environment", "colored"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "INSIDE_EMACS": "30.1,compile"}, False),
        ({"TERM": "eterm-color", "INSIDE_EMACS": "30.1,term:0.96"}, True),
    ],
)
def test_a_terminal_has_colors_if_it_shows_them(environment: dict[str, str], colored: bool) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert style.wants_colors("auto", Terminal(), environment) is colored


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    script = (
        "import sys; from streamlint.output.terminal import write; "
        "[write('x\\n' * 300_000, sys.stdout) for _ in '12']"
    )
    command = f'"{sys.executable}" -c "{script}" | head -1; echo "${{PIPESTATUS[0]}}"'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, cwd=tmp_path, check=True
    )
    assert (done.stdout, done.stderr) == ("x\n0\n", "")


@pytest.mark.parametrize(("redirection", "status"), [(">&-", 0), (">/dev/full", 2)])
def test_output_that_cannot_be_written(tmp_path: Path, redirection: str, status: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = f'"{sys.executable}" -m streamlint rules {redirection}'
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == status
    assert done.stderr == ("streamlint: error: cannot write: No space left on device\n" if status else "")


def test_a_terminal_without_unicode_gets_escapes(
    project: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "train.py").write_text(SOURCE.replace("print(loss)", 'print("é")'), encoding="utf-8")
    engine.findings = [finding()]
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    assert cli.main(["train.py", "-q"]) == 1
    assert b'print("\\xe9")' in out.getvalue()


def test_rules_start_without_the_analysis() -> None:
    """Heavy libraries are imported only when something is analyzed."""
    script = "import sys, streamlint.cli; print([m for m in ('networkx', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_stops_is_no_error_of_a_subcommand(tmp_path: Path) -> None:
    source = "import torch\n\n" + "".join(
        f"def f{i}_bad():\n    s = torch.cuda.Stream()\n    x = torch.ones(9, device='cuda')\n"
        "    with torch.cuda.stream(s):\n        y = x * 2\n    return y.sum().item()\n\n"
        for i in range(40)
    )
    (tmp_path / "many.py").write_text(source, "utf-8")
    command = (
        f'"{sys.executable}" -m streamlint confirm many.py --plan | (exec 0<&-); echo "${{PIPESTATUS[0]}}"'
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout.split()[-1], done.stderr) == ("0", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chek", "."), "`chek` is neither a command nor a file; did you mean `check`?"),
        (("train.py", "--select", ""), "empty list of rules: ``"),
        (("train.py", "--ignore", " , "), "empty list of rules: ` , `"),
    ],
)
def test_what_was_meant_is_asked(
    project: Path, engine: FakeEngine, capsys: Capture, arguments: tuple[str, ...], said: str
) -> None:
    result = run(capsys, *arguments)
    assert (result.status, said in result.err) == (2, True), result.err


def test_explain_may_be_an_option(project: Path, engine: FakeEngine, capsys: Capture) -> None:
    assert run(capsys, "--explain", "SL101").out == run(capsys, "explain", "unordered-read").out
