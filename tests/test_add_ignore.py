"""``--add-ignore``: comments that a person did not have to write."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streamlint.settings.catalog import vocabulary
from streamlint.settings.ignores import with_comments
from streamlint.source import Span
from tests.cli_support import RULES, finding, install, run

Capture = pytest.CaptureFixture[str]
FIXTURES = Path(__file__).parent.parent / "fixtures"
ADDED = b"# streamlint: ignore[SL101] idle here"


def written(tmp_path: Path, content: bytes, *places: tuple[str, int]) -> bytes:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    findings = [replace(finding(code), primary=Span("a.py", line, 0, line, 1)) for code, line in places]
    return with_comments(path, findings, "idle here", vocabulary(RULES))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"y = x\n", ADDED + b"\ny = x\n"),
        (b"if a:\n\ty = x", b"if a:\n\t" + ADDED + b"\n\ty = x"),
        (b"if a:\r\n  y = f(\r\n x)\r\n", b"if a:\r\n  " + ADDED + b"\r\n  y = f(\r\n x)\r\n"),
        (b"\xef\xbb\xbfy = '\x0c'\n", b"\xef\xbb\xbf" + ADDED + b"\ny = '\x0c'\n"),
        (
            b"# -*- coding: latin-1 -*-\nn = '\xe9'\n",
            b"# -*- coding: latin-1 -*-\n" + ADDED + b"\nn = '\xe9'\n",
        ),
        (
            b"a\ny = x  # streamlint: ignore[SL102] why\n",
            b"a\ny = x  # streamlint: ignore[SL102, SL101] why\n",
        ),
        (
            b"#\n# streamlint: ignore[unordered-write] why\ny = x\n",
            b"#\n# streamlint: ignore[unordered-write, SL101] why\ny = x\n",
        ),
    ],
)
def test_a_comment_stands_above_its_statement(tmp_path: Path, before: bytes, after: bytes) -> None:
    last = before.count(b"\n") + (not before.endswith(b"\n"))
    assert written(tmp_path, before, ("SL101", last)) == after


def test_one_comment_for_a_statement(tmp_path: Path) -> None:
    places = ("SL102", 3), ("SL101", 2), ("SL901", 4)
    assert written(tmp_path, b"y = f(\n    x,\n    z)\nw = 1\n", *places) == (
        b"# streamlint: ignore[SL101, SL102] idle here\ny = f(\n    x,\n    z)\n"
        b"# streamlint: ignore[SL901] idle here\nw = 1\n"
    )


def test_the_fixtures_are_silent_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("sl101_unordered_read", "sl202_host_write_during_copy", "sl401_missing_record_stream"):
        shutil.copy(FIXTURES / "torch" / f"{name}.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, ".").status == 1
    done = run(capsys, ".", "--add-ignore", "wrong on purpose")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("Wrote comments for ")
    assert done.err.endswith(" findings into 3 files.\n")
    silent = run(capsys, ".")
    assert silent.status == 0, silent.out


def test_standard_input_is_no_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    install(monkeypatch)
    result = run(capsys, "-", "--add-ignore", "because")
    assert (result.status, result.err) == (
        2,
        "streamlint: error: --add-ignore writes into files: `-` is none\n",
    )
