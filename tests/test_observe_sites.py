"""Which places events get, and what the source calls things there."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import parsing
from streamlint.confirm.observe.sites import Frames, Located, Sources, library_folders

if TYPE_CHECKING:
    from streamlint.confirm.observe.events import Place

needs_columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no columns")


def located(tmp_path: Path, source: str, encoding: str = "utf-8") -> list[Located]:
    """Where the calls of ``seen`` in a program are."""
    path = tmp_path / "program.py"
    path.write_text(source, encoding)
    frames, places = Frames(library_folders()), list[Any]()

    def seen(*_: object) -> object:
        places.append(frames._innermost(sys._getframe(1)))
        return seen

    seen.method = seen  # type: ignore[attr-defined]
    exec(compile(source, str(path), "exec"), {"seen": seen, "__name__": "program"})  # noqa: S102
    sources = Sources(tmp_path)
    return [sources.locate(place) for place in places]


@needs_columns
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_source_is_read_in_the_encoding_that_it_declares(tmp_path: Path, encoding: str) -> None:
    source = f"# coding: {encoding.removesuffix('-sig')}\nü = seen(1)\n"
    (place,) = located(tmp_path, source, encoding)
    assert (place.assigned, place.span.col) == ("ü", 4)


def test_a_source_that_would_hold_the_parser_up_has_lines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "MOST_WORK", 100)
    (place,) = located(tmp_path, 'x = seen(1)\ny = f"{x}{x}{x}{x}{x}{x}{x}{x}"\n')
    assert (place.span.line, place.node, place.assigned) == (1, None, "")


@needs_columns
def test_the_span_of_a_call_counts_code_points(tmp_path: Path) -> None:
    (place,) = located(tmp_path, "üü = '…'; x = seen(1)\n")
    assert (place.span.path, place.span.line) == ("program.py", 1)
    assert (place.span.col, place.span.end_col) == (14, 21)
    assert place.function == ""


def test_the_function_is_named_as_in_findings(tmp_path: Path) -> None:
    source = "class A:\n    def f(self):\n        return seen(1)\nA().f()\n"
    (place,) = located(tmp_path, source)
    assert place.span.line == 3
    assert place.function in {"A.f", "f"}  # Python 3.10 keeps no qualified names


@needs_columns
@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("x = seen(1)", "x"),
        ("self.x = seen(1)", "self.x"),
        ("a, x = 0, seen(1)", "x"),
        ("x: int = seen(1)", "x"),
        ("x = check(seen(1))", "x"),
        ("(x := seen(1))", "x"),
        ("x = y = seen(1)", "x"),
        ("x = [seen(1)]", ""),
        ("seen(1)", ""),
    ],
)
def test_what_a_statement_calls_the_value(tmp_path: Path, statement: str, name: str) -> None:
    source = f"class Self: pass\nself = Self()\ndef check(x): return x\n{statement}\n"
    (place,) = located(tmp_path, source)
    assert place.assigned == name


@needs_columns
def test_what_the_source_calls_the_operands(tmp_path: Path) -> None:
    method, function = located(tmp_path, "a = b = [0]\nseen.method(a, b[0])\nseen(a, 1)\n")
    assert [method.operand(number) for number in range(4)] == ["seen", "a", "b[0]", ""]
    assert [function.operand(number) for number in range(2)] == ["a", ""]


@needs_columns
def test_what_is_called_of_a_module_has_no_receiver(tmp_path: Path) -> None:
    """Whatever its name is: the file's imports tell."""
    source = "import importlib.machinery as rt\nfrom importlib import machinery as kinds\na = 0\n"
    calls = "rt.seen = kinds.also = seen\nrt.seen(a)\nkinds.also(a)\n"
    assert [place.operand(0) for place in located(tmp_path, source + calls)] == ["a", "a"]


@needs_columns
def test_a_value_that_nothing_looks_at(tmp_path: Path) -> None:
    ignored, used = located(tmp_path, "seen(1)\nif seen(1): pass\n")
    assert (ignored.ignored, used.ignored) == (True, False)


def test_libraries_are_not_the_users_code() -> None:
    frames = Frames(library_folders())
    assert frames.is_user(__file__)
    assert not frames.is_user(threading.__file__)
    assert not frames.is_user(str(Path("/elsewhere/site-packages/torch/nn.py")))
    assert not frames.is_user("<frozen importlib._bootstrap>")


def test_a_thread_without_code_of_the_user_stands_for_the_main_thread() -> None:
    namespace: dict[str, Any] = {}
    library = "def run(frames, found): found.append(frames.place())"
    exec(compile(library, "<library>", "exec"), namespace)  # noqa: S102
    found: list[Place] = []
    thread = threading.Thread(target=namespace["run"], args=(Frames(library_folders()), found))
    thread.start()
    thread.join()
    # The main thread is in `join`, or still in `start`, both called by this test.
    (place,) = found
    assert place is not None
    assert place[0] is sys._getframe().f_code


def test_a_file_that_is_gone_has_lines_only(tmp_path: Path) -> None:
    code = compile("\nseen", str(tmp_path / "gone.py"), "exec")
    offset = next(start for start, _, line in code.co_lines() if line == 2)
    place = Sources(tmp_path).locate((code, offset))
    assert (place.span.path, place.span.line, place.node) == ("gone.py", 2, None)
