"""Odd files and folders: each is an error of its own, and the others are analyzed all the same."""

from __future__ import annotations

import io
import json
import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamlint
from streamlint import cli
from streamlint.cli import main
from streamlint.files import UnreadableError, decoded, read
from streamlint.parsing import MAX_BYTES
from streamlint.run import searches
from streamlint.run.discover import DEEPEST, discover
from streamlint.run.session import Session
from tests.cli_support import Result, run

if TYPE_CHECKING:
    from collections.abc import Callable

RACY = """\
import torch


def total():
    side = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.fill_(2.0)
    return x.sum()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "racy.py").write_text(RACY)
    return folder


def check(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    return run(capsys, "check", "--output-format", "concise", *arguments)


def self_link(tree: Path) -> None:
    (tree / "loop.py").symlink_to("loop.py")


def long_loop(tree: Path) -> None:
    (tree / "one.py").symlink_to("two.py")
    (tree / "two.py").symlink_to("one.py")


def large(tree: Path) -> None:
    with (tree / "large.py").open("wb") as file:
        file.truncate(3 << 30)


def not_text(tree: Path) -> None:
    (tree / "bytes.py").write_bytes(b"import torch\nx = '\xff'\n# streamlint: ignore[SL101]\n")


def nul(tree: Path) -> None:
    (tree / "nul.py").write_bytes(b"import torch\nx = 1 \x00 # streamlint: ignore[SL101]\n")


def pipe_of_patterns(tree: Path) -> None:
    os.mkfifo(tree / ".gitignore")


def many_patterns(tree: Path) -> None:
    (tree / ".gitignore").write_text("x\n" * 20_000)


def folder_of_patterns(tree: Path) -> None:
    (tree / ".gitignore").mkdir()


def deep(tree: Path) -> None:
    here = tree
    for _ in range(DEEPEST + 3):
        here /= "d"
        here.mkdir()


def nested_code(tree: Path) -> None:
    (tree / "nested.py").write_text(f"import torch\ns = torch.cuda.Stream()\ny = {'-' * 100_000}1\n")


def many_fields(tree: Path) -> None:
    (tree / "fields.py").write_text(f"import torch\ns = torch.cuda.Stream()\ny = f'{'{s}' * 600_000}'\n")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (self_link, "loop.py: cannot read the file: "),
        (long_loop, "one.py: cannot read the file: "),
        (large, "large.py: cannot read the file: file too large (3221225472 bytes"),
        (not_text, "bytes.py:2: not UTF-8 text (byte 18)"),
        (nul, "nul.py:"),
        (pipe_of_patterns, ".gitignore: cannot read the patterns: not a regular file"),
        (many_patterns, ".gitignore: cannot use the patterns: there are more than"),
        (folder_of_patterns, ".gitignore: cannot read the patterns: not a regular file"),
        (deep, "folders deep: not looked into"),
        (nested_code, "nested.py:1: nested too deeply to be parsed"),
        (many_fields, "fields.py:3: too many braces beside f-strings to be parsed (600000 in "),
    ],
)
def test_a_bad_entry_is_its_own_error(
    tree: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], error: str
) -> None:
    make(tree)
    result = check(capsys, tree)
    assert result.status == cli.FAILED
    assert result.err.count("streamlint: error: ") == (2 if make is long_loop else 1)
    assert error in result.err
    assert "racy.py:10:" in result.out


def test_an_unreadable_folder_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "closed").mkdir()
    scandir = os.scandir

    def refuse(folder: str | Path) -> object:
        if os.fspath(folder).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    result = check(capsys, tree)
    assert (result.status, "closed: cannot read the folder: Permission denied" in result.err) == (2, True)
    assert "racy.py:10:" in result.out


def test_links_that_loop_among_folders_and_links_to_nothing_are_no_errors(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "inner").mkdir()
    (tree / "inner" / "up").symlink_to(tree)
    (tree / "self").symlink_to("self")
    (tree / ".#racy.py").symlink_to("me@here.1234")  # an editor has the file open
    assert (check(capsys, tree).status, check(capsys, tree).err.count("error")) == (1, 0)


def test_links_out_of_the_tree_are_followed_if_they_are_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tree.parent / "outside.py"
    outside.write_text(RACY)
    (tree / "out.py").symlink_to(outside)
    (tree / "package").mkdir()
    (tree / "package" / "in.py").symlink_to(tree / "racy.py")
    assert [path.name for path in discover([tree], tree).files] == ["racy.py"]
    assert [path.name for path in discover([tree / "package"], tree).files] == ["in.py"]
    assert "out.py:10:" in check(capsys, tree / "out.py").out


def test_nothing_but_regular_files_is_opened(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tree / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "socket.py"))
        (tree / "zero.py").symlink_to("/dev/zero")
        start = time.monotonic()
        assert check(capsys, tree).status == 1
        assert time.monotonic() - start < 20
        for name in ("pipe.py", "zero.py"):
            with pytest.raises(UnreadableError, match="not a regular file"):
                read(tree / name)
        with pytest.raises(UnreadableError):
            read(tree / "socket.py")
        assert check(capsys, tree / "pipe.py", tree).status == 2


@pytest.mark.parametrize("name", ["pyproject.toml", "streamlint.toml"])
def test_a_configuration_that_is_no_file(tree: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tree / name).unlink(missing_ok=True)
    os.mkfifo(tree / name)
    result = check(capsys, tree)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert f"{name}: not a regular file" in result.err


def test_a_file_that_grows_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows.py"
    path.write_bytes(b"x" * 11)

    def small(descriptor: int) -> os.stat_result:
        return os.stat_result((0o100644, *[0] * 9))

    monkeypatch.setattr(os, "fstat", small)
    with pytest.raises(UnreadableError, match="too large"):
        read(path, 10)


def test_a_large_file_is_not_read_for_its_comments(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor for anything else. Larger files that are read are the analyzer's own: results are kept by them."""
    large(tree)
    names: dict[int, str] = {}
    read_from: dict[str, int] = {}
    opening, fdopen = os.open, os.fdopen

    def noting_names(path: str | Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opening(path, flags, mode)
        names[descriptor] = os.fspath(path)
        return descriptor

    def noting(descriptor: int, mode: str, *, closefd: bool) -> object:
        read_from[names[descriptor]] = os.fstat(descriptor).st_size
        return fdopen(descriptor, mode, closefd=closefd)

    monkeypatch.setattr(os, "open", noting_names)
    monkeypatch.setattr(os, "fdopen", noting)
    assert check(capsys, tree).status == 2
    assert str(tree / "racy.py") in read_from
    own = str(Path(streamlint.__file__).parent)
    assert [path for path, size in read_from.items() if size > MAX_BYTES and not path.startswith(own)] == []


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pyproject.toml", []),
        ("streamlint.toml", []),
        ("own.toml", ["--config"]),
        ("known.json", ["--baseline"]),
        (".gitignore", []),
        ("large.ipynb", []),
        ("large.py", []),
    ],
)
def test_a_file_of_100_megabytes_is_named_and_not_read(
    tree: Path, capsys: pytest.CaptureFixture[str], name: str, options: list[str]
) -> None:
    with (tree / name).open("wb") as file:
        file.truncate(100_000_000)
    started, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = check(capsys, *options, *([tree / name] if options else []), tree)
    assert (result.status, "file too large (100000000 bytes" in result.err) == (2, True)
    assert name in result.err
    assert time.process_time() - started < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 50_000  # in units of 1024 bytes


def test_a_coding_comment_is_heeded(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# coding: latin-1\n" + RACY.replace("    return x.sum()", "    é = 'é'; return x.sum()")
    (tree / "racy.py").write_bytes(text.encode("latin-1"))
    result = check(capsys, tree)
    assert (result.status, result.err.count("error")) == (1, 0)
    assert "racy.py:11:21:" in result.out


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"x = 1\ny = '\xff'\n", 2, "not UTF-8 text"),
        (b"# coding: none-such\n", 1, "unknown encoding"),
        (b"# coding: punycode\nx = 1\n", 1, "is not read"),
        (b"# coding: hex\nx = 1\n", 1, "not text in the encoding"),
        (b"# coding: ascii\n# \xe9\n", 2, "not ascii text"),
    ],
)
def test_what_is_no_text_says_where(content: bytes, line: int, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason) as raised:
        decoded(content)
    assert raised.value.line == line


@pytest.mark.parametrize("form", ["full", "concise", "json", "sarif", "github"])
def test_names_that_are_not_utf_8(tree: Path, capfdbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    name = os.fsdecode(b"racy\xff\xe9.py")
    try:
        (tree / "racy.py").rename(tree / name)
        (tree / os.fsdecode(b"bad\xff.py")).write_text("import torch; stream =\n")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    status = cli.main(["check", "--output-format", form, str(tree)])
    said = capfdbinary.readouterr()
    said.err.decode("utf-8")
    written = said.out.decode("utf-8")
    assert (status, "SL101" in written) == (2, True)
    if form in ("json", "sarif"):
        json.dumps(json.loads(written), ensure_ascii=False).encode("utf-8")


@pytest.mark.internal_error
def test_an_internal_error_costs_one_file(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "other.py").write_text(RACY)
    module = Session.module

    def fails(self: Session, path: Path) -> object:
        if path.name == "other.py":
            raise KeyError("x")
        return module(self, path)

    monkeypatch.setattr(Session, "module", fails)
    result = check(capsys, tree)
    assert (result.status, "other.py: internal error: KeyError: 'x'" in result.err) == (2, True)
    assert "racy.py:10:" in result.out


@pytest.mark.parametrize(
    "code",
    [
        " and ".join(["side"] * 30_000),
        " + ".join(["side"] * 30_000),
        "side" + ".a" * 30_000,
        "[" * 150 + "]" * 150,
        "0x" + "f" * 100_000,
        " ".join(["'a'"] * 100_000),
    ],
    ids=["and", "plus", "attributes", "lists", "hex", "strings"],
)
def test_deep_code_costs_one_function_at_most(
    tree: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    (tree / "deep.py").write_text(RACY + f"\n\ndef deep(side):\n    side.x = {code}\n")
    result = check(capsys, tree)
    assert "racy.py:10:" in result.out
    assert "internal error" not in result.err
    assert "deep.py:10:" in result.out or "deep.py:1: nested too deeply" in result.err


@pytest.mark.parametrize(
    "search",
    [
        searches.calls("load"),
        searches.assigns("copy_stream"),
        searches.stores("side"),
        searches.reaches("loader", "copy_stream"),
        searches.records("done"),
    ],
)
def test_a_search_reads_a_long_word_once(search: searches.Search) -> None:
    """A number of a million digits, or data written as text."""
    text = b"load(loader.copy_stream, done.record()).side\nx = 0x" + b"f" * 1_000_000
    started = time.process_time()
    search.matches(text)
    assert time.process_time() - started < 2


def test_standard_input_that_is_closed(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    result = check(capsys, "-")
    assert (result.status, result.err) == (2, "streamlint: error: standard input is closed\n")


def test_standard_input_without_an_end(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#" * 5_000_000)))
    result = check(capsys, "-")
    assert (result.status, "standard input is too large" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "[" * 100_000, "nested too deeply"),
        (".".join(["a"] * 200_000) + " = 1", "a key of more than 100 parts"),
        ("[" + ".".join(["a"] * 200_000) + "]", "a key of more than 100 parts"),
        ("x = " + "9" * 10_000, "not valid TOML"),
        ("x = 1\n" * 300_000, "too large"),
        ("x = \x00", "not valid TOML"),
    ],
)
def test_a_hostile_configuration_is_an_error(
    tree: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (tree / "pyproject.toml").write_text(text)
    start = time.monotonic()
    result = check(capsys, tree)
    assert time.monotonic() - start < 20
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "pyproject.toml:" in result.err
    assert reason in result.err


MANY = f'{{"version": 1, "findings": [{",".join(["[]"] * 1_000_000)}]}}'


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 10_000, "\x00", '"\\ud800"', MANY], ids=range(6)
)
def test_a_hostile_baseline_is_an_error(tree: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    known = tree / "known.json"
    known.write_text(text)
    result = check(capsys, "--baseline", known, tree)
    assert (result.status, result.err.count("\n"), "not a baseline" in result.err) == (2, 1, True)
    assert "known.json:" in result.err


def test_a_pattern_full_of_stars_takes_no_time(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / ("a" * 200 + ".py")).write_text("x = 1\n")
    stars = "a*" * 30 + "b"
    (tree / ".gitignore").write_text(stars)
    (tree / "pyproject.toml").write_text(
        f'[tool.streamlint]\nexclude = ["{stars}"]\nper-file-ignores = {{ "{stars}" = ["SL101"] }}\n'
    )
    start = time.monotonic()
    assert check(capsys, tree).status == 1
    assert time.monotonic() - start < 20


def test_names_and_keys_reach_no_terminal_as_they_are(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    escape = "\x1b]0;owned\x07\u202e"
    (tree / f"x{escape}.py").write_text("x =\n")
    (tree / "pyproject.toml").write_text(
        '[tool.streamlint]\nper-file-ignores = { "\\u001b[2J\\u202e" = ["SL9x"] }\n'
    )
    for arguments in ([tree], ["--config", tree / f"none{escape}", tree], [tree / f"x{escape}"]):
        result = check(capsys, *arguments)
        assert result.status == 2
        assert result.err
        assert not {"\x1b", "\x07", "\u202e"} & set(result.out + result.err)
    (tree / "pyproject.toml").write_text("")
    for form in ("full", "concise", "github"):
        result = run(capsys, "check", "--output-format", form, tree)
        assert result.err
        assert not {"\x1b", "\x07", "\u202e"} & set(result.out + result.err)


def test_a_comment_of_100_000_codes_is_one_finding(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = ",".join(f"SL{number}" for number in range(100_000))
    (tree / "many.py").write_text(f"import torch\nx = 1  # streamlint: ignore[{codes}]\n")
    result = check(capsys, tree)
    assert result.out.count("many.py:2:") == 1
    assert "a suppression comment of more than 100 codes has no effect" in result.out
    assert len(result.out) < 10_000


def test_comments_between_brackets_take_no_time(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "# streamlint: ignore[SL101]\n1,\n" * 10_000
    (tree / "many.py").write_text(f"import torch\nx = [\n{lines}]\n")
    start = time.process_time()
    assert "many.py:3:" in check(capsys, tree).out
    assert time.process_time() - start < 30


@pytest.mark.parametrize("command", ["confirm", "graph"])
def test_other_commands_print_no_control_characters_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = tmp_path / "a\x1b[31m\u202e.py"
    path.write_text("def f(:\n", encoding="utf-8")
    told = []
    for target in (str(path), f"{path}::f", f"{path}x::f\x1b]0;title\x07"):
        assert main([command, target]) == 2
        written = capsys.readouterr()
        told += [written.out, written.err]
    assert not any(char in text for text in told for char in "\x1b\x07\u202e")
    assert any("a\u241b[31m" in text for text in told)
