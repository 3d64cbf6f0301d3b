"""Woven programs do what they did, and the probes see what the statements touch."""

from __future__ import annotations

import ast
import gc
import textwrap
import traceback
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from streamlint.confirm.inside.sight import sight_of
from streamlint.confirm.plan.functions import Program
from streamlint.confirm.terms import GONE
from streamlint.confirm.text.instrument import PROBE, Place
from streamlint.confirm.text.weave import Role, Site, weave
from tests.confirm_support import Array
from tests.expectations import fixture_files

if TYPE_CHECKING:
    from pathlib import Path


class Log:
    """A probe that writes down what it is told, and keeps nothing else."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def enter(self, numbers: tuple[int, ...]) -> None:
        self.seen.append(f"enter {numbers}")

    def leave(self, numbers: tuple[int, ...], value: object = None) -> object:
        self.seen.append(f"leave {numbers}")
        return value

    def hold_current(self, _numbers: tuple[int, ...]) -> None:
        self.seen.append("current")

    def hold_among(self, _numbers: tuple[int, ...], *arguments: object) -> tuple[object, ...]:
        self.seen.append(f"among {len(arguments)}")
        return arguments

    def on(self, _numbers: tuple[int, ...], stream: object) -> object:
        self.seen.append(f"on {stream}")
        return stream

    on_launch = on
    on_arguments = on

    def see(self, _numbers: tuple[int, ...], name: str, value: object) -> object:
        self.seen.append(name)
        return value

    def call(self, _numbers: tuple[int, ...], _line: int, value: object) -> object:
        return value

    def raised(self, _numbers: tuple[int, ...], error: BaseException) -> None:
        self.seen.append(f"raised {error}")

    def caught(self) -> None:
        self.seen.append("caught")


def run(source: str, *roles: tuple[Role, int], name: str = "f") -> tuple[list[str], Any]:
    """Run ``f`` of the program with these lines woven."""
    source = textwrap.dedent(source).lstrip()
    sites = {n: Site(n, role, "f.py", Place(line)) for n, (role, line) in enumerate(roles)}
    log = Log()
    space: dict[str, Any] = {PROBE: log}
    exec(compile(weave(source, "f.py", sites), "f.py", "exec"), space)  # noqa: S102
    return log.seen, space[name]()


E, L, G = Role.EARLIER, Role.LATER, Role.GUARD


def test_a_statement_is_entered_shown_and_left() -> None:
    source = """
        class T:
            def copy_(self, other, stream=None):
                return other
        def f():
            x, y = [T(), T()], T()
            x[0].copy_(y)
            x[1].copy_(y, stream=5)
            return 1
    """
    seen, value = run(source, (E, 6), (L, 7))
    assert value == 1
    assert seen == [
        *("enter (0,)", "current", "x[0]", "y", "leave (0,)"),
        *("enter (1,)", "x[1]", "y", "on 5", "leave (1,)"),
    ]


@pytest.mark.parametrize(
    ("body", "line", "value"),
    [
        ("x = [1, 2]\n    x[0] = 5\n    return x", 3, [5, 2]),
        ("x = 1\n    x += 2\n    return x", 3, 3),
        ("x, y = 1, 2\n    x, y = y, x\n    return x", 3, 2),
        ("return [i for i in (1, 2)]", 2, [1, 2]),
        ("for i in (1, 2):\n        pass\n    return i", 2, 2),
        ("i = 0\n    while i < 3:\n        i += 1\n    return i", 3, 3),
        ("if (n := 4) > 3:\n        return n", 2, 4),
        ("with open('/dev/null') as file:\n        return file.name", 2, "/dev/null"),
        ("match 5:\n        case 5:\n            return 6", 2, 6),
        ("g = lambda a: a + 1\n    return g(1)", 2, 2),
        ("assert True\n    return 1", 2, 1),
        ("x = 1\n    del x\n    return 2", 3, 2),
        ("global there\n    there = 3\n    return there", 3, 3),
        ("async def g(): return 1\n    import asyncio\n    return asyncio.run(g())", 4, 1),
        ("return", 2, None),
    ],
)
@pytest.mark.parametrize("role", [E, L, G])
def test_what_a_statement_does_stays(body: str, line: int, value: object, role: Role) -> None:
    assert run(f"def f():\n    {body}\n", (role, line))[1] == value


def test_a_stream_may_be_among_the_arguments_of_a_plain_call() -> None:
    source = """
        def fill(x, value, stream):
            return value
        def f():
            x, s = [0], 5
            return fill(x, 7, s)
    """
    seen = ["enter (0,)", "x", "s", "among 3", "leave (0,)"]
    assert run(source, (E, 5)) == (seen, 7)
    assert run(source.replace("return fill(x, 7, s)", "fill(x, 7, s)"), (E, 5))[0] == seen


def test_what_is_written_into_is_looked_up_by_constants_only() -> None:
    source = """
        class T(dict):
            looked = 0
            def __getitem__(self, key):
                T.looked += 1
                return dict.__getitem__(self, key)
        def f():
            x, mask = T({0: 1}), 0
            x[mask] = 2
            variable = T.looked
            x[0] = 3
            return variable, T.looked
    """
    seen, value = run(source, (L, 8), (L, 10))
    assert value == (0, 1)
    assert [name for name in seen if name.startswith("x")] == ["x", "x[0]"]


def test_headers_are_looked_at_each_time_they_run() -> None:
    seen, _ = run("def f():\n    i = 0\n    while i < 2:\n        i += 1\n", (L, 3))
    assert seen.count("enter (0,)") == seen.count("leave (0,)") == 3


def test_methods_keep_their_super() -> None:
    source = """
        class A:
            def m(self):
                return 1
        class B(A):
            def m(self):
                return super().m() + 1
        def f():
            return B().m()
    """
    assert run(source, (E, 6))[1] == 2


def test_an_error_passes_through_a_guard_with_its_lines() -> None:
    source = "def f():\n    x = 1\n    raise ValueError('no')\n"
    for role in (E, G):
        log = Log()
        space: dict[str, Any] = {PROBE: log}
        tree = weave(source, "f.py", {0: Site(0, role, "f.py", Place(3))})
        exec(compile(tree, "f.py", "exec"), space)  # noqa: S102
        with pytest.raises(ValueError, match="no") as raised:
            space["f"]()
        frames = [frame.lineno for frame in traceback.extract_tb(raised.value.__traceback__)][1:]
        assert frames == [3]
        assert ("raised no" in log.seen) == (role is G)


def test_handlers_of_a_file_with_guards_tell_what_they_hide() -> None:
    source = "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        return 2\n"
    assert run(source, (G, 3)) == (["raised division by zero", "caught"], 2)
    assert run(source, (L, 3))[0] == ["enter (0,)"]


def test_device_code_is_left_alone() -> None:
    source = "def k(x):\n    x[0] = 1\n\nkernel = cuda.jit(k)\n"
    assert ast.unparse(weave(source, "f.py", {0: Site(0, E, "f.py", Place(2))})) == ast.unparse(
        ast.parse(source)
    )


def test_a_place_that_is_gone_is_left_out() -> None:
    source = "x = 1\n"
    assert ast.unparse(weave(source, "f.py", {0: Site(0, E, "f.py", Place(40))})) == "x = 1"


@pytest.mark.parametrize("path", fixture_files(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_statement_of_the_fixtures_can_be_woven(path: Path) -> None:
    program = Program(path)
    functions = {name.partition(".")[0] for name in program.names()}
    places = [place for name in functions for place in program.work(name)]
    sites = {n: Site(n, (E, L, G)[n % 3], str(path), place) for n, place in enumerate(places)}
    tree = weave(program.source, str(path), sites)
    compile(tree, str(path), "exec")
    lines = len(program.source.splitlines())
    assert all(1 <= node.lineno <= lines for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr))


def test_a_sight_keeps_nothing_alive() -> None:
    array = Array(1, 2)
    sight, gone = sight_of("x", [array, 3], None), weakref.ref(array)
    assert sight is not None
    assert ("x[0][0]", "1") in sight.leaves(None)
    assert sight.keys() == {id(array)}
    del array
    gc.collect()
    assert gone() is None
    assert sight.leaves(None) == [("x[0]", GONE), ("x[1]", "3")]


@pytest.mark.parametrize(
    ("value", "leaves"),
    [
        (7, [("v", "7")]),
        (True, [("v", "True")]),
        ("text", [("v", "'text'")]),
        ([(1, 2.0), [3]], [("v[0][0]", "1"), ("v[0][1]", "2.0"), ("v[1][0]", "3")]),
        ({"x": 1, 2: {"y": 3}, None: 4}, [("v['x']", "1"), ("v[2]['y']", "3")]),
        ([[[[1]]]], []),
        ("<object at 0x7f00>", None),
        (1 << 47, None),
        (None, None),
        (object(), None),
        (len, None),
    ],
)
def test_only_what_two_processes_can_compare_is_seen(value: object, leaves: object) -> None:
    sight = sight_of("v", value, None)
    assert (None if sight is None else sight.leaves(None)) == leaves
