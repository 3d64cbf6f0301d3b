"""Patterns of .gitignore: as git reads them, and in no time."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlint.patterns import MOST_PATTERNS, PatternError, Patterns

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("pattern", "ignored", "not_ignored"),
    [
        ("*.py", "a.py d/a.py", "a.pyc a"),
        ("/a.py", "a.py", "d/a.py"),
        ("d/a.py", "d/a.py", "e/d/a.py"),
        ("d/", "d/a d/e/a e/d/a", "d"),
        ("d", "d d/a e/d", "dd d.py"),
        ("a/**", "a/b a/b/c", "a b/a/c"),
        ("**/b", "b a/b a/c/b", "bb"),
        ("a/**/c", "a/c a/b/c a/b/b/c", "a/b b/a/c ac"),
        ("a**c", "ac abbc d/abc", "a/c"),
        ("a?c", "abc", "ac a/c abbc"),
        ("[a-c]x", "ax cx", "dx x"),
        ("[!a]x", "bx", "ax"),
        ("[^a]x", "bx", "ax"),
        ("[]a]x", "]x ax", "bx"),
        ("[[:digit:]_]x", "1x _x", "ax"),
        (r"\*x", "*x", "ax"),
        (r"\#x", "#x", "x"),
        (r"\!x", "!x", "x"),
        (r"x\ ", "x ", "x"),
        ("x  ", "x", "xx"),
        ("# x", "", "x"),
        ("/", "", "x x/y"),
    ],
)
def test_what_a_pattern_means(pattern: str, ignored: str, not_ignored: str) -> None:
    patterns = Patterns.of([pattern])
    words = [ignored] if ignored.endswith(" ") else ignored.split()
    assert [path for path in words if not patterns.cover(path)] == []
    assert [path for path in not_ignored.split() if patterns.cover(path)] == []


def test_the_last_pattern_decides_and_nothing_comes_out_of_an_ignored_folder() -> None:
    patterns = Patterns.of(["*.py", "!a.py", "gen/", "!gen/a.py"])
    assert (patterns.verdict("b.py"), patterns.verdict("a.py"), patterns.verdict("c")) == (True, False, None)
    assert patterns.verdict("gen/a.py") is True


@pytest.mark.parametrize("pattern", ["!", "a[b", "a[", "x\\", "[[:none:]]"])
def test_what_git_does_not_understand(pattern: str) -> None:
    with pytest.raises(PatternError):
        Patterns.of([pattern])
    assert Patterns.of([pattern, "a"], lenient=True).cover("a")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a*" * 30 + "b", "a" * 200),
        ("*" * 5000 + "b", "a" * 250),
        ("*a" * 5000, "a" * 250),
        ("**/" * 2000 + "b", "a/" * 1000 + "a"),
        ("**/a/" * 50 + "b", "a/" * 100 + "a"),
        ("**/" + "a*" * 20 + "b/" + "**/c", "/".join(["a" * 100] * 50)),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    start = time.process_time()
    assert Patterns.of([pattern]).verdict(path) is None
    assert time.process_time() - start < 2


def test_there_may_not_be_any_number_of_patterns() -> None:
    with pytest.raises(PatternError, match="more than"):
        Patterns.of(["x"] * (MOST_PATTERNS + 1), lenient=True)


NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PARTS = st.one_of(
    st.text("ab.*?", min_size=1, max_size=4), st.sampled_from(["**", "[ab]", "[!a]b", "a[a-b]*"])
)
PATTERNS = st.tuples(
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/"]),
).map("".join)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@settings(max_examples=60, deadline=None)
@given(
    patterns=st.lists(PATTERNS, min_size=1, max_size=4),
    paths=st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=12),
)
def test_git_ignores_the_same(
    tmp_path_factory: pytest.TempPathFactory, patterns: list[str], paths: list[str]
) -> None:
    folder = repository(tmp_path_factory)
    (folder / ".gitignore").write_text("\n".join(patterns), "utf-8")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=folder,
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    ignored = set(done.stdout.split("\0")) - {""}
    ours = Patterns.of(patterns, lenient=True)
    assert {path for path in paths if ours.cover(path)} == ignored


def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one: of a path that is not there git takes only the parts before it for folders."""
    folder = tmp_path_factory.getbasetemp() / "patterns"
    if not folder.exists():
        folder.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder
