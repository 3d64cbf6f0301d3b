"""Programs whose analysis would have no end: each is bounded, what was cut is named, and the rest goes on."""

from __future__ import annotations

import ast
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamlint import ir
from streamlint.interp.entries import runs
from streamlint.interp.state.budgets import LIMITS, Budgets, FileCut, Limits, short
from streamlint.order import conflicts
from streamlint.rules.base import Judged
from streamlint.run import engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.finding import Report
    from streamlint.trace import Op, OpId

PACKAGE = Path(__file__).parent.parent / "streamlint"
HEAD = "import functools, torch\nside = torch.cuda.Stream()\ndef f(x: torch.Tensor, s, t):\n"
RACE = "    with torch.cuda.stream(side):\n        y = x * 2\n    return y + 1\n"


def checked(folder: Path, text: str) -> Report:
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return engine.analyze(folder, [path], engine.Settings())


def repeated(start: str, step: str, times: int = 40) -> str:
    return f"    a = {start}\n" + f"    {step}\n" * times


ENDLESS = {
    "a range": "    for i in range(10**9):\n        x.add_(i)\n    [x + i for i in range(10**300)]\n",
    "ranges made lists": "    list(range(10**9)), [*range(10**9)], tuple(range(10**9)), set(range(10**9))\n",
    "zipped ranges": "    for i, j in zip(range(10**9), range(10**9)):\n        x.add_(i)\n",
    "doubled texts": repeated("'ab'", "a = a + a"),
    "doubled bytes": repeated("b'ab'", "a = a + a"),
    "doubled lists": repeated("[1, 2]", "a = a + a"),
    "doubled tuples": repeated("(1, 2)", "a = a + a"),
    "doubled names": repeated("s.y", "a = a + a"),
    "names compared": repeated("s.y", "a = a < a"),
    "names indexed": repeated("s.y", "a = a[a:a]"),
    "names passed": repeated("s.y", "a = foo(a, a); a = max(a, a); a = isinstance(a, a)"),
    "names formatted": repeated("s.y", "a = f'{a}{a}'; a = '{}{}'.format(a, a); a = '%s%s' % (a, a)"),
    "extended by itself": repeated("[x]", "a.extend(a)"),
    "tuples in tuples": repeated("(s, side)", "a = (a, a, a)") + "    if a == t:\n        foo(a)\n",
    "lists in lists": repeated("[s, side]", "a = [a, a, a]") + "    if a == t:\n        foo(a)\n",
    "results of unseen code": repeated("foo(side)", "a = foo(a, a)"),
    "tuples for unseen code": repeated("(s, side)", "a = (a, a)") + "    foo(a)\n",
    "partials for unseen code": "    import functools\n"
    + repeated("foo(side)", "a = functools.partial(foo, a, a)")
    + "    s.run(a)\n",
    "squared": repeated("3", "a = a * a"),
    "powers": "    a = 9**9**9 + (1 << 10**9) + 2**250**3\n    b = ((2**250)**250)**250\n",
    "large texts": "    a = 'x' * 10**10\n    b = bytes(10**10)\n    c = '%1000000000d' % 3\n",
    "a large number": f"    a = 0x{'f' * 20_000}\n    b = a * a, str(a), x[a]\n    x.add_(a == t)\n",
    "infinities": "    a = int(1e308 * 10)\n    b = float(10**400) + 10**400 / 3\n    c = 2 ** -(10**9)\n",
    "partials": "    import functools\n"
    + repeated("f", "a = functools.partial(a, a, a)")
    + "    {a: 1}[a]\n",
    "views of views": repeated("x", "a = a[s]", 2_000),
    "attributes": "    a = s" + ".b" * 390 + "\n    a = s" + ".b()" * 100 + "\n",
    "a long table": "    a = {"
    + ",".join(f"'k{i}': {i}" for i in range(6_000))
    + "}\n    b = dict(a).items()\n",
    "stars": repeated("(1, 2, 3)", "a = (lambda *b: (*b, *b))(*a)"),
}


@pytest.mark.parametrize("lines", ENDLESS.values(), ids=ENDLESS)
def test_a_value_is_bounded_where_it_is_made(tmp_path: Path, lines: str) -> None:
    started = time.process_time()
    report = checked(tmp_path, HEAD + lines + RACE)
    assert report.errors == ()
    assert "SL101" in {finding.code for finding in report.findings}, "the rest goes on"
    assert time.process_time() - started < 6


NAMES_A_BOUND = re.compile(r"MOST_[A-Z]")
SAID_BY = {"allows", "allows_entries", "cut"}


def bounds_used(path: Path) -> Iterator[tuple[str, bool]]:
    """The bounds that a module names, and whether it asks ``Budgets`` for them there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {
        arg
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SAID_BY
        for arg in node.args
    }
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if NAMES_A_BOUND.match(name) and isinstance(getattr(node, "ctx", None), ast.Load):
            yield name, node in told


@pytest.mark.parametrize("part", ["interp", "judging", "order"])
def test_no_bound_cuts_in_silence(part: str) -> None:
    """What ends somewhere by itself is a ``Most``, and who asks ``Budgets`` for it has it said."""
    told: dict[str, bool] = {}
    for path in sorted((PACKAGE / part).rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if NAMES_A_BOUND.match(name):
                    assert ast.unparse(value).startswith("Most("), f"{path.name}: {name} has no words"
                    told.setdefault(name, False)
        for name, is_said in bounds_used(path):
            told[name] = told.get(name, False) or is_said
    assert [name for name, is_told in told.items() if not is_told] == []


def test_what_was_left_out_is_named(tmp_path: Path) -> None:
    report = checked(tmp_path, HEAD + ENDLESS["tuples in tuples"] + RACE)
    (left,) = report.statistics.left_out
    assert (left.path, left.function, left.what) == ("program.py", "f", "elements of a tuple")


def test_passes_that_are_left_out_are_named(tmp_path: Path) -> None:
    loop = "    for i in range({}):\n        x.add_(i * 2 + 1).mul_(i - 3).sub_(i + 4)\n"
    long, short = (checked(tmp_path, HEAD + loop.format(turns) + RACE) for turns in (500, 20))
    assert [left.what for left in long.statistics.left_out] == ["passes of a loop"]
    assert short.statistics.left_out == ()


def test_what_is_written_once_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What repeats is bounded: a long function is run to its end, a short one with a long loop is cut."""
    monkeypatch.setattr(runs, "LIMITS", Limits(path_steps=600, path_ops=120))
    long = checked(tmp_path, HEAD + "    x = x * 2\n" * 200 + RACE)
    assert (long.statistics.left_out, "SL101" in {finding.code for finding in long.findings}) == ((), True)
    looping = checked(tmp_path, HEAD + "    for i in range(200):\n        x = x * 2\n" + RACE)
    assert [left.what for left in looping.statistics.left_out] == ["steps"]


LOOPS = "".join("    " + " " * depth + f"for i{depth} in range(9):\n" for depth in range(18))


def test_a_function_nested_too_deeply_is_named(tmp_path: Path) -> None:
    deep = HEAD.replace("f(", "g(") + "    side.wait_event(s" + ".b()" * 700 + ")\n"
    report = checked(tmp_path, deep + HEAD.partition("\n")[2] + RACE)
    assert {finding.function for finding in report.findings} == {"f"}
    (left,) = report.statistics.left_out
    assert left.function == "g"
    assert "nested too deeply" in left.what


def test_one_endless_function_leaves_the_others(tmp_path: Path) -> None:
    endless = HEAD.replace("f(", "g(") + LOOPS + " " * 24 + "x.add_(1)\n    side.synchronize()\n"
    report = checked(tmp_path, endless + HEAD.partition("\n")[2] + RACE)
    assert [finding.function for finding in report.findings] == ["f", "f"]
    left_out = {(left.function, left.what) for left in report.statistics.left_out}
    assert left_out == {("g", "steps"), ("g", "passes of a loop")}


def test_a_file_is_cut_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(HEAD.replace("f(", f"f{number}(") + RACE for number in range(20))
    whole = checked(tmp_path, many)
    assert (len(whole.findings), whole.errors) == (40, ())
    spend = Budgets.spend

    def stingy(budgets: Budgets, steps: int) -> None:
        spend(budgets, steps)
        if budgets.entry == "f10":
            raise FileCut("more than 0 steps")

    monkeypatch.setattr(Budgets, "spend", stingy)
    report = checked(tmp_path, many)
    assert len(report.findings) == 20, "what was found before stands"
    (error,) = report.errors
    assert error.path == "program.py"
    assert "more than 0 steps" in error.message
    assert "`f10`" in error.message


def test_short_texts_stay_and_long_ones_differ() -> None:
    assert short("a" * LIMITS.key) == "a" * LIMITS.key
    one, other = short("a" * 10**6 + "b" + "c" * 10**6), short("a" * 10**6 + "d" + "c" * 10**6)
    assert len(one) <= LIMITS.key
    assert one != other
    assert one[:200] == other[:200]


def test_accesses_of_one_buffer_that_are_left_out_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflicts, "FRONTIER_LIMIT", 20)
    monkeypatch.setattr(conflicts, "_TIDY_AT", 10)
    report = checked(tmp_path, many("places", 40))
    (left,) = report.statistics.left_out
    assert (left.function, left.what) == ("f", "accesses of one buffer")
    assert {finding.confidence.value for finding in report.findings} <= {"likely", "possible"}


def test_what_is_left_out_is_one_entry_for_each_function_and_kind(tmp_path: Path) -> None:
    tests = "".join(f"        if x.a{number}():\n            side.synchronize()\n" for number in range(30))
    report = checked(tmp_path, METHODS + "".join(METHOD.format(n) + tests for n in range(4)))
    left = report.statistics.left_out
    assert [(one.function, one.what) for one in left] == sorted({(f"Many.m{n}", "paths") for n in range(4)})
    assert all(one.count > 1 for one in left), "alone, and with each of the others"


def test_thousands_of_pairs_of_one_function(tmp_path: Path) -> None:
    """What a rule looks for on a path is indexed: the time grows with the findings, not with their square."""
    count = 1_000
    writes = "".join(f"        a{number} = x * {number}\n" for number in range(count))
    reads = "".join(f"    b{number} = a{number} + 1\n" for number in range(count))
    started = time.process_time()
    report = checked(tmp_path, HEAD + "    with torch.cuda.stream(side):\n" + writes + reads)
    assert len(report.findings) == 2 * count
    assert time.process_time() - started < 20


def many(kind: str, count: int) -> str:
    """A function with that many unordered pairs, and with as much of what may order them."""
    line = {
        "waits": "    with torch.cuda.stream(side):\n        a{0} = x * {0}\n"
        "    e.record(other)\n    current.wait_event(e)\n    b{0} = a{0} + 1\n",
        "threads": "    t{0} = threading.Thread(target=g, args=(x,))\n    t{0}.start()\n    b{0} = x + 1\n",
        "frees": "    a = torch.empty(8, device='cuda')\n"
        "    with torch.cuda.stream(side):\n        a.add_({0})\n"
        "    del a\n    b = torch.empty(8, device='cuda')\n",
        "places": "    with torch.cuda.stream(side):\n        x[{0}].add_(1)\n    b{0} = x[{0}] + 1\n",
    }[kind]
    head = (
        "import threading, torch\nside = torch.cuda.Stream()\nother = torch.cuda.Stream()\n"
        "def g(x):\n    with torch.cuda.stream(side):\n        x.add_(1)\n"
        "def f(x: torch.Tensor, t):\n    e = torch.cuda.Event()\n    current = torch.cuda.current_stream()\n"
    )
    return head + "".join(line.format(number) for number in range(count))


@pytest.mark.parametrize("kind", ["waits", "threads", "frees", "places"])
def test_what_a_finding_costs_does_not_depend_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Counted in looks at operations and at nodes of the text, so that no clock decides."""
    looks: Counter[str] = Counter()
    look, walk = Judged.op, ir.walk

    def counted(judged: Judged, number: OpId) -> Op:
        looks["ops"] += 1
        return look(judged, number)

    def walked(node: object, *, functions: bool = False) -> Iterator[object]:
        for part in walk(node, functions=functions):
            looks["nodes"] += 1
            yield part

    monkeypatch.setattr(Judged, "op", counted)
    monkeypatch.setattr(ir, "walk", walked)
    once = checked(tmp_path, many(kind, 24))
    few = looks.copy()
    twice = checked(tmp_path, many(kind, 48))
    assert len(twice.findings) > 1.5 * len(once.findings) > 40
    assert looks["ops"] - few["ops"] < 2.6 * few["ops"]
    assert looks["nodes"] - few["nodes"] < 2.6 * few["nodes"]


METHODS = """class Many:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.y = None
"""
METHOD = """    def m{0}(self, x: torch.Tensor):
        with torch.cuda.stream(self.side):
            self.y = x * 2
"""
FIRST, REST = HEAD.split("def ")
FIRST += "class A0:\n    pass\nclass C0:\n    pass\n"

LARGE = {
    "methods": METHODS + "".join(METHOD.format(number) for number in range(150)),
    "a chain of calls": "".join(f"def f{i}(x):\n    side.query()\n    f{i + 1}(x)\n" for i in range(900)),
    "a chain of classes": "".join(f"class C{i + 1}(C{i}):\n    pass\n" for i in range(1_500)),
    "a circle of classes": "".join(f"class C{i}(C{(i + 1) % 50}):\n    pass\n" for i in range(50)),
    "diamonds": "".join(
        f"class L{i}(A{i}):\n    pass\nclass R{i}(A{i}):\n    pass\nclass A{i + 1}(L{i}, R{i}):\n    pass\n"
        for i in range(100)
    ),
    "a question about a doubled number": (
        "def doubled(x):\n    side.synchronize()\n    n = x.numel()\n"
        + "    n = n + n\n" * 60
        + "    if n > 3:\n        side.query()\n"
    ),
    "a long line": "def long(x):\n    side.synchronize()\n    y = [" + "x.k(), " * 80_000 + "]\n",
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_program_takes_seconds(tmp_path: Path, text: str) -> None:
    started = time.process_time()
    report = checked(tmp_path, FIRST + text + "def " + REST + RACE)
    assert report.errors == ()
    assert "f" in {finding.function for finding in report.findings}, "the rest goes on"
    assert time.process_time() - started < 12


def test_what_is_too_large_to_be_read_is_named(tmp_path: Path) -> None:
    report = checked(tmp_path, FIRST + LARGE["a long line"])
    (left,) = report.statistics.left_out
    assert left.function == "long"
    assert "too large" in left.what


def chain(length: int) -> str:
    """Functions that each hand a tensor and a stream to the next one; the last one queues work there."""
    steps = "".join(f"def f{at}(x, lane):\n    return f{at + 1}(x, lane)\n" for at in range(length))
    last = f"def f{length}(x, lane):\n    with torch.cuda.stream(lane):\n        return x * 2\n"
    first = "def run(x):\n    lane = torch.cuda.Stream()\n    y = f0(x + 1, lane)\n"
    wait = "    torch.cuda.current_stream().wait_stream(lane)\n    return y\n"
    return "import torch\n" + first + wait + steps + last


@pytest.mark.parametrize("length", [3, 7, 8, 30])
def test_who_is_given_a_stream_is_followed_however_deep(tmp_path: Path, length: int) -> None:
    report = checked(tmp_path, chain(length))
    assert [(f.code, f.function, f.confidence.name) for f in report.findings] == [
        ("SL101", f"f{length}", "LIKELY")
    ]
    assert report.statistics.left_out == ()


def test_calls_that_are_too_deep_are_told(tmp_path: Path) -> None:
    report = checked(tmp_path, chain(LIMITS.call_depth + 5))
    assert ("run", "depth of calls") in {(left.function, left.what) for left in report.statistics.left_out}
