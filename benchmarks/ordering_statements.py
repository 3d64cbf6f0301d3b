"""Statements that only order, and which of them can matter to the order inside of the program.

The criteria are about names and syntax only, so that the analyzer does not choose what it is tried on.
A statement *cannot matter* if

* ``timing``: it records or waits for an event whose time the module asks for (``start`` of
  ``start.elapsed_time(end)``) or that is made with ``enable_timing=True``, or it makes the host wait in a
  function that reads a clock;
* ``forwards``: its function does nothing else, or has its name: ``def synchronize(self):
  torch.cuda.synchronize()``, ``def record_stream(self, s): for x in self.parts: x.record_stream(s)``. It
  orders for its callers;
* ``no stream``: it is another ``record_event``: that of a log, with two arguments or a constant (``QUEUED``);
* ``one stream``: it makes the host wait for the device or for the current stream, in a function that names no
  other stream and no event, and starts no copy with ``non_blocking``. One stream is ordered by itself, and
  what the host fetches from it waits. Such a statement protects other processes, other libraries, or a
  measurement.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_functions import last_name, named_like

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDERING = frozenset(
    """
    wait_stream wait_event record_event record_stream synchronize
    cudaStreamWaitEvent cudaEventRecord cudaStreamSynchronize cudaEventSynchronize cudaDeviceSynchronize
    cuStreamWaitEvent cuEventRecord cuStreamSynchronize cuEventSynchronize cuCtxSynchronize
    """.split()
)
BY_RECEIVER = frozenset({"wait", "record", "sync"})


@dataclass(frozen=True, slots=True)
class Deletion:
    """One statement to delete; lines count from 1, columns from 0 (UTF-8 bytes, as ``ast`` counts)."""

    path: Path
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    cannot_matter: str = ""
    """Why the text itself shows that no order inside of the program depends on it; mostly empty."""


def orders(call: ast.expr) -> bool:
    """Whether a call is one that only orders, also inside a helper that checks its status."""
    if not isinstance(call, ast.Call):
        return False
    name = last_name(call.func)
    if name in ORDERING:
        return True
    if name in BY_RECEIVER and isinstance(call.func, ast.Attribute):
        return named_like(call.func.value, "event") or named_like(call.func.value, "stream")
    return len(call.args) == 1 and orders(call.args[0])


def deletions(path: Path, source: bytes) -> Iterator[Deletion]:
    """The ordering statements of a module, by function."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    times = timed_names(tree)
    waiting: list[tuple[str, str, ast.AST, ast.AST]] = [("", "", tree, tree)]
    while waiting:
        scope, function, body, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    inner = f"{scope}.{name}".lstrip(".")
                    waiting.append((f"{inner}.<locals>", inner, child, child))
                case ast.ClassDef(name=name):
                    waiting.append((f"{scope}.{name}".lstrip("."), function, body, child))
                case ast.Expr(value=value) if function and orders(value):
                    yield _deletion(path, function, child, cannot_matter(child, body, times))
                case _:
                    waiting.append((scope, function, body, child))


def _deletion(path: Path, function: str, node: ast.Expr, why: str) -> Deletion:
    end_line = node.end_lineno or node.lineno
    end_column = node.end_col_offset or 0
    text = ast.unparse(node)
    return Deletion(path, function, node.lineno, node.col_offset, end_line, end_column, text, why)


def cut_out(source: bytes, deletion: Deletion) -> bytes:
    """The module with the statement replaced by ``pass``; all other places keep their lines."""
    lines = source.splitlines(keepends=True)
    first, last = deletion.line - 1, deletion.end_line - 1
    head = lines[first][: deletion.column]
    tail = lines[last][deletion.end_column :]
    lines[first : last + 1] = [head + b"pass" + tail, *[b"\n"] * (last - first)]
    return b"".join(lines)


# ----------------------------------------------------------------------------- what cannot matter

_CLOCKS = frozenset({"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "elapsed_time"})
_STREAM_WORDS = frozenset(
    {"wait_stream", "wait_event", "record_event", "record_stream", "set_stream", "Stream", "ExternalStream"}
)


def timed_names(tree: ast.AST) -> frozenset[str]:
    """Names of events whose time is asked for, or that are made for that."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=start, attr="elapsed_time"), args=args):
                found |= {last_name(part) for part in (start, *args)}
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value) if (
                value
            ):
                if any(isinstance(part, ast.keyword) and _is_timing(part) for part in ast.walk(value)):
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    found |= {last_name(name) for name in names}
            case _:
                pass
    return frozenset(found - {""})


def _is_timing(keyword: ast.keyword) -> bool:
    value = keyword.value
    return keyword.arg == "enable_timing" and not (isinstance(value, ast.Constant) and value.value is False)


def cannot_matter(statement: ast.Expr, function: ast.AST, times: frozenset[str]) -> str:
    call = statement.value
    assert isinstance(call, ast.Call)
    name = last_name(call.func)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name in ("record", "synchronize", "wait") and receiver is not None and last_name(receiver) in times:
        return "timing"
    if name in ("record_event", "wait_event", "record") and any(last_name(a) in times for a in call.args):
        return "timing"
    waits = name.lower().endswith("synchronize") or name == "sync"
    if waits and any(last_name(c) in _CLOCKS for c in ast.walk(function) if isinstance(c, ast.Call)):
        return "timing"
    if name in ("record", "record_event") and (len(call.args) > 1 or any(map(_is_constant, call.args))):
        return "no stream"
    named = function.name if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
    if name in named or _does_nothing_else(function):
        return "forwards"
    whole = receiver is None or last_name(receiver) == "current_stream" or not _is_handle(receiver)
    if waits and whole and not _has_second_stream(function, statement):
        return "one stream"
    return ""


def _is_constant(argument: ast.expr) -> bool:
    return last_name(argument).isupper()


def _is_handle(receiver: ast.expr) -> bool:
    return named_like(receiver, "stream") or named_like(receiver, "event")


def _does_nothing_else(function: ast.AST) -> bool:
    """Whether all statements of a function only order, decide or return."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=value):
                if not isinstance(value, ast.Constant) and not orders(value):
                    return False
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.With() | ast.For() | ast.While():
                return False
            case ast.Return(value=ast.expr() as value) if not isinstance(value, (ast.Constant, ast.Name)):
                return False
            case _:
                pass
    return True


def _has_second_stream(function: ast.AST, statement: ast.Expr) -> bool:
    """Whether a function names a stream other than the current one, an event, or an asynchronous copy."""
    own = {id(node) for node in ast.walk(statement)}
    for node in ast.walk(function):
        if id(node) in own:
            continue
        match node:
            case ast.keyword(arg="non_blocking"):
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                if name in _STREAM_WORDS:
                    return True
                if name not in ("current_stream", "default_stream") and (
                    named_like(ast.Name(name), "stream") or named_like(ast.Name(name), "event")
                ):
                    return True
            case _:
                pass
    return False
