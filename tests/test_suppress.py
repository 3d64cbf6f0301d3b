"""Suppression comments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence, Finding, SourceError
from streamlint.settings.catalog import INVALID_SUPPRESSION, UNUSED_SUPPRESSION, vocabulary
from streamlint.settings.suppress import read_comments
from streamlint.source import Span
from tests.cli_support import RULES, FakeEngine, finding, install, run

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = vocabulary([UNUSED_SUPPRESSION, INVALID_SUPPRESSION, *RULES])
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeEngine:
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return install(monkeypatch)


def check(capsys: Capture, text: str, *options: str) -> list[tuple[int, str]]:
    """Return line and code of all that is reported for a text, standing in train.py."""
    with open("train.py", "w", encoding="utf-8", newline="") as file:  # noqa: PTH123  (keeps the line ends)
        file.write(text)
    out = run(capsys, "train.py", "--output-format", "concise", *options).out
    return [(int(line.split(":")[1]), line.split()[1]) for line in out.splitlines()]


def at(line: int, end_line: int | None = None) -> Finding:
    return replace(finding(), primary=Span("train.py", line, 0, end_line or line, 3))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("y = x  # streamlint: ignore[SL101] idle here\n", 1),
        ("y = x  # type: ignore # streamlint: ignore[SL101]\n", 1),
        ("y = x  #streamlint:ignore[SL101]\n", 1),
        ("y = x  # streamlint: ignore[SL102,SL101]\n", 1),
        ("y = x  # streamlint: ignore[unordered-read] idle here\n", 1),
        ("y = x  # streamlint: ignore[unordered-read, SL101] said twice\n", 1),
        ("# streamlint: ignore[SL101] idle, see issue #7\ny = x\n", 2),
        ("# streamlint: ignore[SL101]\n# more words\n\ny = x\n", 4),
        ("y = f(\n    x,\n)  # streamlint: ignore[SL101]\n", 2),
        ("y = f(  # streamlint: ignore[SL101]\n    x,\n)\n", 2),
        ("y = f(\n    x,  # streamlint: ignore[SL101]\n)\n", 2),
        ("y = f(\n    # streamlint: ignore[SL101]\n    x,\n)\n", 3),
        ("# streamlint: ignore[SL101]\ny = f(\n    x,\n)\n", 3),
        ("if a:\n    # streamlint: ignore[SL101]\n    y = x\n", 3),
        ("y = x  # streamlint: ignore[SL101]\r\nz = 1\r\n", 1),
        ("z = 1\ry = x  # streamlint: ignore[SL101]\rz = 1\r", 2),
        ("\ufeffy = x  # streamlint: ignore[SL101]\n", 1),
        ("a = '\x0c'\ny = x  # streamlint: ignore[SL101]\n", 2),
    ],
)
def test_a_comment_suppresses(engine: FakeEngine, capsys: Capture, text: str, line: int) -> None:
    engine.findings = [at(line)]
    reported = check(capsys, text, "--select", "SL101")
    assert reported == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("y = x  # streamlint: ignore[SL102]\n", 1),
        ("z = 1  # streamlint: ignore[SL101]\ny = x\n", 2),
        ("y = x\n# streamlint: ignore[SL101]\n", 1),
        ("y = '# streamlint: ignore[SL101]'\n", 1),
        ("y = f(\n    x,\n    z,  # streamlint: ignore[SL101]\n)\n", 2),
        ("y = x  # streamlint: ignore[SL1]\n", 1),
        ("y = x  # streamlint: ignore\n", 1),
    ],
)
def test_a_comment_elsewhere_or_of_another_code_does_not(
    engine: FakeEngine, capsys: Capture, text: str, line: int
) -> None:
    engine.findings = [at(line)]
    assert check(capsys, text, "--select", "SL101") == [(line, "SL101")]


def test_any_line_of_the_primary_place_will_do(engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [at(1, 3)]
    assert check(capsys, "y = f(\n    x,  # streamlint: ignore[SL101]\n)\n") == []


def test_a_related_place_suppresses_nothing(engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding()]  # its related place is on line 5
    text = "\n" * 4 + "a = b  # streamlint: ignore[SL101]\n" + "\n" * 2 + "c = d\n"
    assert check(capsys, text) == [(5, "SL001"), (8, "SL101")]


def test_an_unused_comment_is_reported(engine: FakeEngine, capsys: Capture) -> None:
    text = "y = x  # streamlint: ignore[SL101, SL102]\n"
    assert check(capsys, text) == [(1, "SL001"), (1, "SL001")]
    engine.findings = [at(1)]
    assert check(capsys, text) == [(1, "SL001")]
    out = run(capsys, "train.py").out
    assert "the comment suppresses SL102, which is not reported here" in out
    assert "help: remove SL102 from the comment" in out


def test_only_codes_that_are_on_can_be_unused(engine: FakeEngine, capsys: Capture) -> None:
    text = "y = x  # streamlint: ignore[SL901]\n"
    assert check(capsys, text) == []
    assert check(capsys, text, "--select", "ALL") == [(1, "SL001")]
    assert check(capsys, "y = x  # streamlint: ignore[SL101]\n", "--ignore", "SL101") == []


def test_a_comment_is_used_by_a_finding_below_the_threshold(engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [finding(place=(1, 0, 3), confidence=Confidence.POSSIBLE)]
    assert check(capsys, "y = x  # streamlint: ignore[SL101]\n") == []


def test_no_comment_of_a_broken_file_is_unused(engine: FakeEngine, capsys: Capture) -> None:
    engine.errors = [SourceError("train.py", 1, "too large")]
    assert check(capsys, "y = x  # streamlint: ignore[SL101]\n") == []


def test_unused_suppression_can_be_suppressed(engine: FakeEngine, capsys: Capture) -> None:
    assert check(capsys, "y = x  # streamlint: ignore[SL101, SL001] on some versions\n") == []
    assert check(capsys, "y = x  # streamlint: ignore[SL101]\n", "--ignore", "SL001") == []


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# streamlint: ignore", "a suppression comment without its codes has no effect"),
        ("# streamlint: ignore SL101", "a suppression comment without its codes has no effect"),
        ("# streamlint: ignore[SL101 reason", "a suppression comment without `]` has no effect"),
        ("# streamlint: ignore[]", "a suppression comment without codes has no effect"),
        ("# streamlint: ignore[SL10]", "there is no rule `SL10`; did you mean `SL10"),
        ("# streamlint: ignore[sl101]", "there is no rule `sl101`; did you mean `SL101`?"),
        (
            "# streamlint: ignore[unorderd-read]",
            "there is no rule `unorderd-read`; did you mean `unordered-read`?",
        ),
        ("# streamlint: ignor[SL101]", "a suppression comment that says `ignor`; did you mean `ignore`?"),
        ("# streamlint:", "a suppression comment that says nothing"),
        ("# streamlint: skip-file", "`skip-file` has no effect after the first statement"),
    ],
)
def test_a_comment_that_cannot_be_understood(comment: str, message: str) -> None:
    (problem,) = read_comments("a.py", f"x = 1\ny = x  {comment}\n".encode(), KNOWN).invalid
    assert problem.code == "SL002"
    assert problem.message.startswith(message)
    assert problem.primary == Span("a.py", 2, 7, 2, 7 + len(comment))


def test_a_wrong_code_does_not_spoil_the_others(engine: FakeEngine, capsys: Capture) -> None:
    engine.findings = [at(1)]
    assert check(capsys, "y = x  # streamlint: ignore[SL101, SL999]\n") == [(1, "SL002")]


@pytest.mark.parametrize("top", ["", "#!/usr/bin/env python\n", '"""Doc."""\n\n', "# words\n"])
def test_skip_file(engine: FakeEngine, capsys: Capture, top: str) -> None:
    engine.findings = [at(6)]
    text = f"{top}# streamlint: skip-file\n\n\n\n\nx = 1  # streamlint: ignore[SL102]\n" * 2
    assert check(capsys, text) == []


@pytest.mark.parametrize("content", [b"x = (  # streamlint: ignore[SL101]\n", b"\xff # streamlint: ignore\n"])
def test_broken_text_has_no_comments(content: bytes) -> None:
    assert read_comments("a.py", content, KNOWN).comments == ()


def test_fingerprints_differ_and_outlive_moved_lines(engine: FakeEngine, capsys: Capture) -> None:
    line = b"y = x  # streamlint: ignore[SL999]\n"
    (one,) = read_comments("a.py", line, KNOWN).invalid
    (moved,) = read_comments("a.py", b"\n\n" + line, KNOWN).invalid
    twice = read_comments("a.py", line * 2, KNOWN).invalid
    assert one.fingerprint == moved.fingerprint
    assert len({each.fingerprint for each in twice}) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # streamlint: ignore[SL101] why  # noqa: E501\n", "x = 1  # noqa: E501\n"),
        (
            "x = 1  # noqa  # streamlint: ignore[SL101] why #12 # pragma: no cover\n",
            "x = 1  # noqa  # pragma: no cover\n",
        ),
        ("# streamlint: ignore[SL101]\t#noqa\nx = 1\n", "#noqa\nx = 1\n"),
        ("x = 1  # streamlint: ignore[SL101] see #12\n", "x = 1\n"),
    ],
)
def test_the_comment_goes_alone(
    project: Path, engine: FakeEngine, before: str, after: str, capsys: Capture
) -> None:
    (project / "train.py").write_text(before)
    assert run(capsys, "train.py", "--fix").status == 0
    assert (project / "train.py").read_text() == after
