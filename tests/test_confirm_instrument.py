"""Where the probes go, and that they change nothing else."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING

import pytest

from streamlint.confirm.text import streams
from streamlint.confirm.text.instrument import PROBE, Place, instrument, node_at
from tests.expectations import fixture_files

if TYPE_CHECKING:
    from pathlib import Path


class Log:
    """A probe that writes down what it is told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self) -> None: ...

    def caught(self) -> None:
        self.seen.append("caught")

    def call(self, _line: int, value: object) -> object:
        return value

    def capture_began(self, _line: int, value: object) -> object:
        self.seen.append("capture")
        return value

    def capture_ended(self, _line: int, value: object) -> object:
        self.seen.append("captured")
        return value

    def hold_launch(self, configuration: object) -> object:
        self.seen.append(f"hold {configuration}")
        return configuration

    def hold_current(self) -> None:
        self.seen.append("hold current")

    def hold_among(self, *arguments: object) -> tuple[object, ...]:
        named = [one for one in arguments if isinstance(one, str)]
        self.seen.append(f"hold {named[0] if named else 'current'}")
        return arguments

    def hold_arguments(self, arguments: tuple[object, ...]) -> tuple[object, ...]:
        return self.hold_among(*arguments)

    def hold_after(self, operand: object) -> object:
        self.seen.append("hold current")
        return operand

    def end_earlier(self, value: object = None) -> object:
        return value

    def hold(self, stream: object) -> object:
        self.seen.append(f"hold {stream}")
        return stream

    def later(self, stream: object) -> object:
        self.seen.append(f"later {stream}")
        return stream

    def begin_later(self) -> None:
        self.seen.append("begin")

    def end_later(self, value: object = None) -> object:
        self.seen.append("end")
        return value


def run(source: str, earlier: Place | None, later: Place | None = None) -> tuple[list[str], object]:
    """Run ``f`` of the program, in which ``do`` writes to the log and returns its first argument."""
    log = Log()

    def do(value: object, *_rest: object, **_more: object) -> object:
        log.seen.append(f"do {value}")
        return value

    space: dict[str, object] = {PROBE: log, "do": do, "cudaMemcpyAsync": do, "kernel": {(1, 2, "s"): do}}
    exec(compile(instrument(source, "f.py", earlier, later), "f.py", "exec"), space)  # noqa: S102
    function = space["f"]
    assert callable(function)
    return log.seen, function()


def test_a_statement_is_held_back_on_the_current_stream() -> None:
    seen, value = run("def f():\n    do(1)\n    do(2)\n    return do(3)\n", Place(3))
    assert (seen, value) == (["do 1", "hold current", "do 2", "do 3"], 3)


@pytest.mark.parametrize(
    "call", ["do(2, stream='s')", "cudaMemcpyAsync(2, 0, 0, 0, 's')", "kernel[1, 2, 's'](2)", "do(2, 's')"]
)
def test_a_named_stream_is_held_back_instead(call: str) -> None:
    seen, _ = run(f"def f():\n    {call}\n", Place(2))
    assert seen == ["hold s", "do 2"]


@pytest.mark.parametrize(
    ("statement", "held"),
    [
        ("x = ones().add_(2)", "x = ones().add_(HOLD(2))"),
        ("x = ones().double()", "x = HOLD(ones()).double()"),
        ("x = f(ones(), *a)", "x = f(ones(), *HOLD(a))"),
        ("x = f(ones(), n=1)", "x = f(ones(), n=HOLD(1))"),
        ("x = ones() + y", "x = ones() + HOLD(y)"),
        ("x += ones()", "x += HOLD(ones())"),
        ("return ones() * 2", "return ones() * HOLD(2)"),
    ],
)
def test_a_statement_can_be_held_back_after_its_operands(statement: str, held: str) -> None:
    source = f"def f():\n    {statement}\n"
    place = Place(2, source.splitlines()[1].index("ones()" if "return" in statement else "x"))
    tree = instrument(source, "f.py", place, None, late=True)
    text = _without_calls(ast.unparse(tree)).replace(f"{PROBE}.hold_after", "HOLD")
    assert held in text
    assert "hold_current" not in text


def _without_calls(text: str) -> str:
    """The program without the probes around what calls return."""
    tree = ast.parse(text)

    class Bare(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            probe = ast.unparse(node.func).removeprefix(f"{PROBE}.")
            return node.args[-1] if probe in ("call", "end_earlier") and node.args else node

    return ast.unparse(Bare().visit(tree))


@pytest.mark.parametrize(
    "call", ["launch('s', 1, 2)", "launch(2, do(1), 's', *(3, 4))", "launch(2, 's', config=do(1))"]
)
def test_the_stream_of_a_launch_is_looked_for_among_its_arguments(call: str) -> None:
    # cuda.core has it first; a function of the user's with this name, somewhere.
    source = f"def launch(*arguments, **_):\n    pass\ndef f():\n    {call}\n"
    seen, _ = run(source, Place(4))
    assert [one for one in seen if "hold" in one] == ["hold s"]


def test_the_stream_of_a_callback_is_held_back() -> None:
    source = "def f():\n    do.launch_host_func(do, 1)\n"
    tree = instrument(source, "f.py", Place(2), None)
    assert f"{PROBE}.hold(do).launch_host_func(do, 1)" in ast.unparse(tree)
    assert "hold_current" not in ast.unparse(tree)


def test_positions_of_streams_are_those_of_the_bindings() -> None:
    bindings = [pytest.importorskip(f"cuda.bindings.{name}") for name in ("runtime", "driver")]
    known = [
        (getattr(module, name), position)
        for name, position in streams._POSITIONS.items()
        for module in bindings
        if hasattr(module, name)
    ]
    assert known
    for call, position in known:
        assert list(inspect.signature(call).parameters)[position] in ("stream", "hStream"), call


def test_the_later_statement_is_watched() -> None:
    seen, value = run("def f():\n    do(1)\n    x = do(2, stream='s')\n    return x\n", Place(2), Place(3))
    assert (seen, value) == (["hold current", "do 1", "begin", "later s", "do 2", "end"], 2)


def test_what_the_later_statement_raises_is_told_even_if_it_is_lost() -> None:
    source = "def f():\n    with suppress(Exception):\n        do(1).nothing\n    return 2\n"
    source = f"from contextlib import suppress\n{source}"
    assert run(source, None, Place(4)) == (["begin", "do 1", "caught"], 2)


def test_a_watched_return_returns_its_value() -> None:
    seen, value = run("def f():\n    return do(1)\n", None, Place(2))
    assert (seen, value) == (["begin", "do 1", "end"], 1)


def test_one_statement_can_be_both() -> None:
    seen, _ = run("def f():\n    for i in range(2):\n        do(i, stream='s')\n", Place(3), Place(3))
    assert seen == ["begin", "later s", "hold s", "do 0", "end", "begin", "later s", "hold s", "do 1", "end"]


def test_a_lambda_is_held_back_when_it_runs() -> None:
    source = "def f():\n    g = lambda x: do(x)\n    do(1)\n    return g(2)\n"
    assert run(source, Place(2, source.splitlines()[1].index("do")))[0] == ["do 1", "hold current", "do 2"]
    assert run(source, Place(2, 4))[0] == ["hold current", "do 1", "do 2"]


def test_a_block_is_held_back_before_its_header() -> None:
    seen, _ = run("def f():\n    if do(1):\n        do(2)\n", Place(2))
    assert seen == ["hold current", "do 1", "do 2"]


def test_the_innermost_statement_counts() -> None:
    source = "def f(s):\n    with s: do(1)\n"
    found = node_at(ast.parse(source), source, Place(2, source.splitlines()[1].index("do")))
    assert isinstance(found, ast.Expr)


def test_columns_count_code_points() -> None:
    source = 'def f():\n    "äöü"; do(1); do(2)\n'
    found = node_at(ast.parse(source), source, Place(2, source.splitlines()[1].index("do(2)")))
    assert found is not None
    assert ast.unparse(found) == "do(2)"


@pytest.mark.parametrize("place", [Place(1), Place(9), Place(4)])
def test_a_place_outside_of_functions_is_refused(place: Place) -> None:
    with pytest.raises(LookupError):
        instrument("def f():\n    do(1)\n\ndo(2)\n", "f.py", place, None)


def test_kernels_for_a_compiler_stay_as_they_are() -> None:
    source = "@cuda.jit\ndef k(x):\n    x[0] = do(1)\n"
    assert ast.unparse(instrument(source, "f.py", None, None)) == ast.unparse(ast.parse(source))


def test_declarations_stay_first() -> None:
    source = 'x = 0\n\ndef f():\n    "Text."\n    global x\n    x = do(1)\n    return x\n'
    _, value = run(source, Place(6))
    assert value == 1


@pytest.mark.parametrize("path", fixture_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_fixture_compiles_and_keeps_its_lines(path: Path) -> None:
    source = path.read_text("utf-8")
    tree = instrument(source, str(path), None, None)
    compile(tree, str(path), "exec")
    lines = len(source.splitlines())
    assert all(1 <= node.lineno <= lines for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr))


def test_every_kind_of_block_is_entered() -> None:
    source = inspect.cleandoc("""
        def f():
            try:
                do(1)
                raise ValueError
            except ValueError:
                do(2)
            else:
                do(9)
            finally:
                do(3)
            while True:
                do(4)
                break
            match do(5):
                case 5:
                    do(6)
            class C:
                def m(self):
                    return do(7)
            C().m()
            with open(__file__) if False else __import__("contextlib").nullcontext():
                do(8)
    """)
    for number in (1, 2, 3, 4, 6, 7, 8):
        line = next(i for i, text in enumerate(source.splitlines(), 1) if f"do({number})" in text)
        seen, _ = run(source, Place(line))
        assert seen[seen.index("hold current") + 1] == f"do {number}"


def test_a_form_feed_ends_no_line() -> None:
    """It stands between the parts of a file, alone on a line or before a function."""
    source = "\x0cimport torch\n\x0c\ndef f(x):\n    y = 'é'; x.fill_(1)\n"
    found = node_at(ast.parse(source), source, Place(4, 13))
    assert found is not None
    assert ast.unparse(found) == "x.fill_(1)"
