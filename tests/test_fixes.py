"""Fixes hold what they promise: on all fixtures, and on files as users have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import jsonschema
import pytest

from streamlint import cli
from streamlint.finding import Confidence, Edit, Fix, Report
from streamlint.fixes import replay
from streamlint.fixes.edits import applied, compatible, diff
from streamlint.run import engine, fixing
from streamlint.run.session import Session
from streamlint.source import Span
from tests.cli_support import finding
from tests.expectations import FIXTURES, fixture_files
from tests.mending import ROOT, Mending, mend, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from streamlint.run.results import FileResult

RACE = """\
import torch


def total(x: torch.Tensor):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2  # twice
    # what the caller wants
    return y.sum()
"""
MENDED = RACE.replace("    # what", "    torch.cuda.current_stream().wait_stream(side)\n    # what")


# ----------------------------------------------------------------------------- all fixtures


@pytest.fixture(scope="module")
def mended(analyzed: Callable[[Path], Report], kept: Path) -> Callable[[Path], Mending]:
    """A fixture, mended once, in whichever process; what is ``left`` in it is not told."""

    def once(file: Path) -> Mending:
        place = kept / f"mended {file.parent.name} {file.stem}"
        if not place.exists():
            made = mend(file, analyzed(file))
            told = {name: getattr(made, name) for name in ("text", "faults", *COUNTED)}
            written = place.with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(told), encoding="utf-8")
            written.replace(place)
        told = json.loads(place.read_text(encoding="utf-8"))
        found, fixed, safe = (Counter[str](told[name]) for name in COUNTED)
        return Mending(file, told["text"], found, fixed, safe, faults=told["faults"])

    return once


COUNTED = ("found", "fixed", "safe")

KNOWN = {
    # The caller waits now; callers that nobody sees could still leave the wait out: certain was said before.
    "torch/sl101_lists_of_modules": {
        "still there: ('SL101', 'Ahead.forward', "
        "'`self.full` is read on the current stream while `lane` may still be writing it')",
    },
    # Two callers make this line wrong, and the first alone is shown: the second is mended in the next round.
    "torch/sl101_guessed_objects": {
        "still there: ('SL101', 'Slot.sum', "
        "'`self.memory` is read on the current stream while `side` may still be writing it')",
    },
    # What a generator that is stepped has queued is not seen behind the wait: it is tried, and not offered.
    "torch/sl101_stepped_generators": {
        "still there: ('SL102', 'Layers.forward', "
        "'`page` is overwritten on the current stream while `self.mover.side` may still be reading it')",
    },
    # Two mistakes in one place: who waits now still lets the batch go too early, told of other calls.
    "torch/sl101_heirs_of_libraries": {
        "new: fixtures/torch/sl101_heirs_of_libraries.py:39:9 "
        "('SL401', 'LoadedAhead.__iter__, then __next__, then __next__', "
        "'`batch` may still be in use on the current stream when it goes back to the allocator of "
        "`self.up`')",
    },
    # The wait comes by events of two places: a record in front of it is tried, and not offered.
    "torch/sl103_put_away": {
        "new: fixtures/torch/sl103_put_away.py:57:21 ('SL103', 'UnrecordedLookups.look_up', "
        "'nothing records what is put into `events` here: waits for it order nothing')",
    },
    # A thread goes on with a pass of its loop where others give it something: a wait in front of what that
    # pass writes is tried, and not offered.
    "torch/sl202_threads_that_count": {
        "still there: ('SL202', 'Unchecked.work', "
        "'the host overwrites `self.hosts[slot]` while `self.stream` may still be reading it')",
    },
    # Memory that one method lets go, another one may get: the wait would stand there, and is not offered.
    "torch/sl101_streams_by_annotation": {
        "still there: ('SL401', 'Lane.ones', "
        "'`out` may still be in use on the current stream when it goes back to the allocator of "
        "`self.stream`')",
    },
    # The event that the help names has no name there, or gets one that the exchange is not known by.
    "deep_ep/sl602_counted_layouts": {
        "still there: ('SL602', 'worst_case_bad', "
        "'`per_expert` is used on the current stream before the wait for `get_dispatch_layout`')",
        "still there: ('SL602', 'before_dispatch_bad', "
        "'`per_expert` is used on the current stream before the wait for `get_dispatch_layout`')",
        "still there: ('SL602', 'handle_bad', "
        "'`per_expert` is used on the current stream before the wait for `get_dispatch_layout`')",
        "still there: ('SL602', 'received_bad', "
        "'`received` is used on the current stream before the wait for `dispatch`')",
    },
    "deep_ep/sl602_received_tokens": {
        "still there: ('SL602', 'reused_bad', "
        "'`x` is overwritten on the current stream before the wait for `dispatch`')",
        "still there: ('SL602', 'used_bad', "
        "'`received` is used on the current stream before the wait for `dispatch`')",
    },
}


def named(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


def test_what_is_known_is_known_of_fixtures() -> None:
    assert KNOWN.keys() <= set(map(named, fixture_files()))


@pytest.mark.parametrize("file", fixture_files(), ids=named)
def test_each_fix_mends_its_finding_and_brings_no_other(
    file: Path, mended: Callable[[Path], Mending]
) -> None:
    assert set(mended(file).faults) == KNOWN.get(named(file), set())


def test_nine_of_ten_wrong_fixtures_have_a_fix(mended: Callable[[Path], Mending]) -> None:
    """Advice aside: most of it is about speed, which no line that is added mends.

    Nor does one keep what a launch overwrites (SL509): the expression itself has to be a copy.
    """
    every = [mended(file) for file in fixture_files()]
    counted = [
        sum(
            number
            for each in every
            for code, number in getattr(each, name).items()
            if "SL9" not in code and code != "SL509"
        )
        for name in ("found", "fixed")
    ]
    assert counted[1] >= 0.9 * counted[0], table(every)


def test_no_stream_is_recorded_for_pinned_memory(mended: Callable[[Path], Mending]) -> None:
    """``record_stream`` of a tensor on the host raises an error."""
    found = mended(FIXTURES / "torch" / "sl401_pinned_pool.py")
    assert found.fixed["SL401"]
    assert not found.faults
    assert found.text.count("record_stream") == found.file.read_text(encoding="utf-8").count("record_stream")


def test_builders_of_graphs_join_and_are_not_made_to_wait(mended: Callable[[Path], Mending]) -> None:
    """``GraphBuilder`` of cuda.core has no ``wait``: what streams have is no fix in its capture."""
    (file,) = (file for file in fixture_files() if file.stem == "sl502_unjoined_branches")
    of_builders = mended(file)
    assert (of_builders.found["SL502"], of_builders.fixed["SL502"]) == (2, 0)


# ----------------------------------------------------------------------------- edits


def put(line: int, text: str) -> Fix:
    return Fix("put", (Edit(Span("a.py", line, 0, line, 0), text),), safe=True)


def test_equal_edits_are_made_once_and_others_at_one_place_wait() -> None:
    fixes = [put(2, "x\n"), put(2, "x\n"), put(2, "y\n"), put(3, "z\n")]
    assert applied("a\nb\nc\n", compatible(fixes)) == "a\nx\nb\nz\nc\n"


def test_line_ends_stay() -> None:
    assert applied("a\r\nb\r\n", [put(2, "x\n")]) == "a\r\nx\r\nb\r\n"
    assert applied("a\r\nb\nc\n", [put(3, "x\n")]) == "a\r\nb\nx\nc\n"
    assert applied("a\r\nb", [put(3, "\nx")]) == "a\r\nb\r\nx"


def test_a_line_behind_the_last_that_has_no_end() -> None:
    assert applied("a\nb", [put(3, "\nx")]) == "a\nb\nx"


def test_a_diff_tells_that_the_last_line_has_no_end() -> None:
    assert diff("a.py", "a\nb", "a\nx\nb").endswith("\n+x\n b\n\\ No newline at end of file\n")


# ----------------------------------------------------------------------------- the command line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    written(tmp_path / "code.py", RACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(file: Path, text: str | bytes) -> None:
    """Writes a file as one that has been there for a while."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(file, (1_700_000_000, 1_700_000_000))


def run(*arguments: str) -> int:
    return cli.main(["check", *arguments, "--no-cache"])


def test_fix_adds_the_wait_and_leaves_the_rest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == MENDED
    told = capsys.readouterr()
    assert "No findings" in told.out
    assert "Fixed 1 finding (SL101 1)." in told.err
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == MENDED


def test_diff_changes_nothing_and_can_be_applied(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--diff") == 1
    assert (project / "code.py").read_text() == RACE
    patch = capsys.readouterr().out
    subprocess.run(["patch", "-p0"], input=patch, text=True, check=True, cwd=project, capture_output=True)
    assert (project / "code.py").read_text() == MENDED
    assert run("code.py", "--diff") == 0


def test_line_ends_and_encoding_of_a_file_stay(project: Path) -> None:
    text = "# -*- coding: latin-1 -*-\r\n# Größe\r\n" + RACE.replace("\n", "\r\n")
    written(project / "code.py", text.encode("latin-1"))
    assert run("code.py", "--fix") == 0
    wanted = "# -*- coding: latin-1 -*-\r\n# Größe\r\n" + MENDED.replace("\n", "\r\n")
    assert (project / "code.py").read_bytes() == wanted.encode("latin-1")


@pytest.mark.parametrize("end", ['"""', '"""  # of the kernel'])
def test_what_looks_like_a_comment_may_end_a_string(project: Path, end: str) -> None:
    code = f'    code = """\n    # first\n    # last{end}\n'
    written(
        project / "code.py", RACE.replace("    # what", f"{code}    # what").replace("sum()", "sum(), code")
    )
    assert run("code.py", "--fix") == 0
    wanted = RACE.replace(
        "    # what", f"{code}    torch.cuda.current_stream().wait_stream(side)\n    # what"
    )
    assert (project / "code.py").read_text() == wanted.replace("sum()", "sum(), code")


def test_a_generated_file_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(project / "code.py", "# @generated by a tool\n" + RACE)
    assert run("code.py", "--fix") == 2
    assert "wait_stream(side)" not in (project / "code.py").read_text()
    assert "code.py: not fixed: it says that it is generated" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_cannot_be_written_is_an_error(project: Path) -> None:
    (project / "code.py").chmod(0o444)
    assert run("code.py", "--fix") == 2
    assert (project / "code.py").read_text() == RACE


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_files_that_cannot_be_used_are_named(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    written(project / "broken.py", "def f(:\n")
    assert run(".", option) == 2
    assert "streamlint: error: broken.py:1: syntax error" in capsys.readouterr().err


def test_a_line_stands_where_its_names_are_bound_on_every_way(project: Path) -> None:
    """Behind the branch `None.wait_stream(...)` would fail where there is no stream."""
    text = """\
import torch


def total(x: torch.Tensor, side: torch.cuda.Stream | None = None):
    if side is not None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
    else:
        y = x * 3
    return y.sum()
"""
    written(project / "code.py", text)
    assert run("code.py", "--fix", "--unsafe-fixes", "--min-confidence", "possible") == 0
    wait = "        torch.cuda.current_stream().wait_stream(side)\n"
    assert (project / "code.py").read_text() == text.replace("    else:", f"{wait}    else:")


@pytest.mark.parametrize("module", ["torch.xpu", "torch.accelerator"])
def test_the_library_is_called_as_the_code_around_does(project: Path, module: str) -> None:
    written(project / "code.py", RACE.replace("torch.cuda", module))
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == MENDED.replace("torch.cuda", module)


def test_a_function_is_called_where_the_library_has_it(project: Path) -> None:
    """The code writes ``torch`` and no ``torch.cuda``, and ``torch`` has no ``current_stream``."""
    text = """\
import torch

def total(x: torch.Tensor):
    host = torch.empty(8, pin_memory=True)
    host.copy_(x.cuda(), non_blocking=True)
    return host.numpy().sum()
"""
    written(project / "code.py", text)
    assert run("code.py", "--fix") == 0
    assert "    torch.cuda.current_stream().synchronize()\n    return" in (project / "code.py").read_text()


def test_outputs_for_tools_have_the_edits(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--output-format", "json") == 1
    ((fix,),) = (each["fixes"] for each in json.loads(capsys.readouterr().out)["findings"])
    edit = {"path": "code.py", "line": 9, "column": 1, "end_line": 9, "end_column": 1}
    line = "    torch.cuda.current_stream().wait_stream(side)\n"
    assert fix["safe"]
    assert fix["edits"] == [{**edit, "text": line}]
    assert run("code.py", "--output-format", "sarif") == 1
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "tests" / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(document)
    ((said,),) = (each["fixes"] for each in document["runs"][0]["results"])
    ((change,),) = (said["artifactChanges"],)
    assert change["replacements"][0]["insertedContent"] == {"text": line}


def test_what_was_kept_of_an_earlier_run_has_its_fixes(project: Path) -> None:
    cached = ["check", "code.py", "--cache-dir", str(project / "kept")]
    assert cli.main(cached) == 1
    assert cli.main([*cached, "--fix"]) == 0
    assert (project / "code.py").read_text() == MENDED


MANY = "import torch\n" + "".join(
    RACE.removeprefix("import torch\n").replace("total", f"total_{number}") for number in range(101)
)


def test_a_file_of_many_findings_has_all_its_fixes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(project / "code.py", MANY)
    assert run("code.py", "--output-format", "json") == 1
    assert sum("fixes" in each for each in json.loads(capsys.readouterr().out)["findings"]) == 101


def test_where_there_is_too_much_to_look_at_it_is_said(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are reached first have their fixes, and rounds that mend them come to the next."""
    monkeypatch.setattr(replay, "MOST_LOOKS", 50)
    monkeypatch.setattr(fixing, "MOST_ROUNDS", 2)
    written(project / "code.py", MANY.partition("def total_9")[0])
    assert run("code.py", "--output-format", "json") == 1
    document = json.loads(capsys.readouterr().out)
    with_fix = sum("fixes" in each for each in document["findings"])
    assert 0 < with_fix < 9
    assert [each["what"] for each in document["summary"]["left_out"]] == ["fixes"] * (9 - with_fix)
    assert run("code.py", "--diff") == 1
    assert capsys.readouterr().err == (
        f"Would fix {2 * with_fix} findings (SL101 {2 * with_fix}). {with_fix} more if it is run again. "
        f"For {9 - 3 * with_fix} no fix was looked for: there is too much in one file.\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # streamlint: ignore[SL101] why\ny = 2\n", "x = 1\ny = 2\n"),
        ("# streamlint: ignore[SL101]\nx = 1\n", "x = 1\n"),
        ("x = 1  # noqa  # streamlint: ignore[SL101]\n", "x = 1  # noqa\n"),
        ("x = 1  # streamlint: ignore[SL101, SL102] why\n", "x = 1\n"),
    ],
)
def test_a_comment_that_suppresses_nothing_is_taken_out(project: Path, before: str, after: str) -> None:
    written(project / "code.py", f"import torch\n\n{before}")
    assert run("code.py", "--fix") == 0
    assert (project / "code.py").read_text() == f"import torch\n\n{after}"


def test_one_code_of_two_is_taken_out(project: Path) -> None:
    mark = "  # streamlint: ignore[SL101, SL102] the caller waits\n"
    written(project / "code.py", RACE.replace("y.sum()\n", f"y.sum(){mark}"))
    assert run("code.py", "--fix") == 0
    assert "y.sum()  # streamlint: ignore[SL101] the caller waits\n" in (project / "code.py").read_text()


def test_options_that_do_not_go_together(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("code.py", "--unsafe-fixes") == 2
    assert run("-", "--fix") == 2
    assert "--unsafe-fixes needs --fix or --diff" in capsys.readouterr().err
    assert (project / "code.py").read_text() == RACE


def test_what_comes_to_light_is_mended_or_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the text gives once it is mended: one finding that has a fix, and then one that has none."""
    steps = ["a = 1\n", "a = 2\n", "a = 3\n"]
    written(project / "code.py", steps[0])

    def analyze(
        root: Path,
        files: Sequence[Path],
        settings: object,
        focus: object = None,
        overlay: Mapping[Path, bytes] | None = None,
        *_: object,
        **__: object,
    ) -> Report:
        given = (overlay or {}).get(project / "code.py")
        saved = (project / "code.py").read_text()
        if given is not None and given.decode() != saved:  # the change does what it is for
            return Report((), (), 1, 1)
        step = steps.index(saved)
        change = Edit(Span("code.py", 1, 0, 2, 0), steps[step + 1]) if step < 2 else None
        found = replace(
            finding("SL101", "code.py", (1, 0, 1)),
            message=f"number {step}",
            fixes=() if change is None else (Fix("next", (change,), safe=True),),
        )
        return Report((found,), (), 1, 1)

    monkeypatch.setattr(engine, "analyze", analyze)
    assert run("code.py", "--fix") == 1
    assert (project / "code.py").read_text() == steps[2]
    told = capsys.readouterr()
    assert "number 2" in told.out
    assert "can be mended" not in told.out
    shown = "Fixed 2 findings (SL101 2): 1 shown, 1 behind them."
    assert f"{shown} 1 came to light that the others had hidden." in told.err


def test_no_text_is_analyzed_twice_while_fixes_are_tried(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that no fix changes, and a text that is saved as it was tried."""
    # A fix looks into the files that call, or define, a function of its function's name.
    written(project / "code.py", RACE)
    written(project / "other.py", RACE.replace("def total", "def other"))
    right = RACE.replace("return", "torch.cuda.synchronize()\n    return")
    written(project / "right.py", right.replace("def total", "def right"))
    looked: list[tuple[str, bytes | None]] = []
    file = Session.file

    def noted(session: Session, path: Path, only: frozenset[str] | None = None) -> FileResult:
        looked.append((path.name, session.tree.data(path)))
        return file(session, path, only)

    monkeypatch.setattr(Session, "file", noted)
    assert run(".", "--fix") == 0
    assert "wait_stream" in (project / "code.py").read_text()
    assert sorted(name for name, _ in looked) == ["code.py", "code.py", "other.py", "other.py", "right.py"]
    assert len(set(looked)) == len(looked)


@pytest.mark.parametrize(
    ("safe", "step", "said"), [(True, 2, "Fixed 2 findings"), (False, 0, "1 left alone")]
)
def test_what_becomes_surer_is_mended_along_or_nothing_is(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    safe: bool,
    step: int,
    said: str,
) -> None:
    """``y + 1`` gets a wait: then the missing one before ``y = x * 2`` is likely, and was possible."""
    steps = ["a = 1\nx\n", "a = 2\nx\n", "a = 3\nx\n"]
    written(project / "code.py", steps[0])

    def analyze(
        root: Path,
        files: object,
        settings: object,
        focus: object = None,
        overlay: Mapping[Path, bytes] | None = None,
        *_: object,
        **__: object,
    ) -> Report:
        content = (overlay or {}).get(project / "code.py", (project / "code.py").read_bytes())
        at = steps.index(content.decode())
        after, before = (
            replace(
                finding("SL101", "code.py", (2, 0, 1)),
                function=name,
                confidence=confidence,
                fixes=(Fix("put", (Edit(Span("code.py", 1, 0, 3, 0), becomes),), safe=is_safe),),
            )
            for name, confidence, becomes, is_safe in (
                ("after", Confidence.LIKELY, steps[1], True),
                ("before", Confidence.LIKELY if at else Confidence.POSSIBLE, steps[2], safe),
            )
        )
        return Report(((after, before), (before,), ())[at], (), 1, 1)

    monkeypatch.setattr(engine, "analyze", analyze)
    run("code.py", "--fix")
    assert (project / "code.py").read_text() == steps[step]
    assert said in capsys.readouterr().err
