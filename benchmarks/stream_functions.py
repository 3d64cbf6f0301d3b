"""Which functions of a tree use streams and events: by names only, without any analysis.

The criterion is independent of streamlint, so that it can serve as a denominator. A function counts
if its own text (not that of functions nested in it) does at least one of these:

* *create*: calls something named ``Stream``, ``ExternalStream``, ``create_stream``, ``cudaStreamCreate...``
  or ``cuStreamCreate...`` (an event alone is not counted: most of those only measure time);
* *enter*: ``with x.stream(s)``, ``with s`` where ``s`` is named like a stream, or calls ``set_stream(s)``;
* *wait*: calls ``wait_stream``, ``wait_event``, ``cudaStreamWaitEvent``, ``cuStreamWaitEvent``, or ``wait``
  or ``synchronize`` on something named like a stream or an event;
* *record*: calls ``record_event``, ``record_stream``, ``cudaEventRecord``, ``cuEventRecord``, or ``record``
  on something named like an event or a stream;
* *ask*: calls ``current_stream`` or ``default_stream``.

"Named like a stream" means that the last part of the receiver's name contains ``stream``; the words of
``FALSE_FRIENDS`` (files, text, networks) are excepted, and ``threading.Event`` and its like are not seen
to be different: their ``wait`` counts, if the variable is named ``...event``, only in a module that
mentions ``cuda``, ``cupy`` or ``accelerator``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEST_FOLDERS = frozenset(
    {"test", "tests", "testing", "_internal_tests", "benchmark", "benchmarks", "bench", "examples"}
)
"""Modules below such a folder are not counted."""

FALSE_FRIENDS = (
    *("upstream", "downstream", "filestream", "bytestream", "textstream", "streaming", "streamer"),
    *("streamhandler", "streamresponse", "stream_options", "stream_response", "event_stream"),
    *("stream_reader", "stream_writer", "stream_generator", "log_stream", "stream_interval"),
)

_CREATORS = frozenset({"Stream", "ExternalStream", "create_stream"})
_WAITS = frozenset({"wait_stream", "wait_event", "cudaStreamWaitEvent", "cuStreamWaitEvent"})
_RECORDS = frozenset({"record_event", "record_stream", "cudaEventRecord", "cuEventRecord"})
_BY_RECEIVER = {"wait": "wait", "synchronize": "wait", "record": "record"}
_ASKS = frozenset({"current_stream", "default_stream"})


class Use(Enum):
    CREATE = "create"
    ENTER = "enter"
    WAIT = "wait"
    RECORD = "record"
    ASK = "ask"

    @property
    def acts(self) -> bool:
        """Whether it orders or selects, and does not only make or look up."""
        return self not in (Use.CREATE, Use.ASK)


@dataclass(slots=True)
class StreamFunction:
    """One function that uses streams; lines count from 1."""

    qualname: str
    first_line: int
    last_line: int
    uses: set[Use] = field(default_factory=set)
    entered: list[tuple[int, int]] = field(default_factory=list)
    """First and last line of the bodies of its ``with`` statements that select a stream."""


def last_name(node: ast.expr) -> str:
    """``wait`` of ``self.events[i].wait``; the function's name for a call."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
        case ast.Call(func=func):
            return last_name(func)
        case _:
            return ""


def named_like(node: ast.expr, word: str) -> bool:
    name = last_name(node).lower()
    return word in name and not any(friend in name for friend in FALSE_FRIENDS)


def use_of_call(call: ast.Call) -> Use | None:
    """What a call does with a stream, judged by names."""
    name = last_name(call.func)
    if name in _CREATORS or name.startswith(("cudaStreamCreate", "cuStreamCreate")):
        return Use.CREATE
    if name in _WAITS:
        return Use.WAIT
    if name in _RECORDS:
        return Use.RECORD
    if name in _ASKS:
        return Use.ASK
    if name == "set_stream":
        return Use.ENTER
    if name in _BY_RECEIVER and isinstance(call.func, ast.Attribute):
        receiver = call.func.value
        if named_like(receiver, "stream") or named_like(receiver, "event"):
            return Use(_BY_RECEIVER[name])
    return None


def selects_stream(item: ast.expr) -> bool:
    """``with torch.cuda.stream(s)``, ``with self.copy_stream``, ``with StreamContext(s)``."""
    if isinstance(item, ast.Call):
        return last_name(item.func) in (
            "stream",
            "StreamContext",
            "_stream_context",
            "Stream",
            "ScopedStream",
        )
    return named_like(item, "stream")


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.scope: list[str] = []
        self.open: list[StreamFunction] = []
        self.found: list[StreamFunction] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.scope.append(node.name)
        made = StreamFunction(".".join(self.scope), node.lineno, node.end_lineno or node.lineno)
        self.open.append(made)
        self.scope.append("<locals>")
        self.generic_visit(node)
        self.scope[-2:] = []
        self.open.pop()
        if made.uses:
            self.found.append(made)

    def visit_With(self, node: ast.With) -> None:
        if self.open and any(selects_stream(item.context_expr) for item in node.items):
            self.open[-1].uses.add(Use.ENTER)
            last = node.body[-1]
            self.open[-1].entered.append((node.body[0].lineno, last.end_lineno or last.lineno))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        use = use_of_call(node)
        if self.open and use is not None:
            self.open[-1].uses.add(use)
        self.generic_visit(node)


def stream_functions(source: bytes) -> list[StreamFunction]:
    """The functions of a module that use streams; none for text that Python cannot parse."""
    if b"tream" not in source or not any(word in source for word in (b"cuda", b"cupy", b"accelerator")):
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    finder = _Finder()
    finder.visit(tree)
    return finder.found


def python_files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.py") if path.is_file())


def is_test(path: Path, root: Path) -> bool:
    inside = path.relative_to(root).parts
    name = path.name
    return (
        not TEST_FOLDERS.isdisjoint(inside[:-1])
        or name.startswith(("test_", "bench_", "benchmark"))
        or name == "conftest.py"
    )


def modules_with_streams(root: Path, files: list[Path]) -> Iterator[tuple[Path, list[StreamFunction]]]:
    """Each module outside of tests and benchmarks that has such functions."""
    for path in files:
        if is_test(path, root):
            continue
        found = stream_functions(path.read_bytes())
        if found:
            yield path, found
