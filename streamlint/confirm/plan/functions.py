"""The functions of a file that can be run by themselves, and the statements in them that may queue work."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.confirm.text.instrument import Place, lines_of, node_at
from streamlint.confirm.text.streams import call_name, takes_stream
from streamlint.files import UnreadableError, read, text_of
from streamlint.parsing import UnparsableError, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    _Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_NO_WORK: Final = frozenset(
    (
        *(
            "synchronize",
            "wait_stream",
            "wait_event",
            "wait",
            "query",
            "record",
            "record_event",
            "record_stream",
        ),
        *("Stream", "Event", "stream", "current_stream", "default_stream", "set_stream", "append", "result"),
        *(
            "print",
            "len",
            "range",
            "float",
            "int",
            "list",
            "tolist",
            "zip",
            "enumerate",
            "super",
            "str",
            "bytes",
        ),
        *("from_address", "memset", "addressof", "CFUNCTYPE"),
    )
)
"""Calls that queue no work that could be held back; a statement of such calls alone is skipped."""

_CUDA_CALL: Final = re.compile(r"cu(da)?[A-Z]")


def _queues_work(name: str) -> bool:
    if _CUDA_CALL.match(name):
        return takes_stream(name) or "Memcpy" in name or "Memset" in name
    return name not in _NO_WORK


class PlanError(Exception):
    """The target cannot be run; the text says why."""


class Program:
    """The parsed text of one file."""

    def __init__(self, path: Path) -> None:
        """:raises PlanError: the file cannot be read or parsed."""
        try:
            self.source = text_of(read(path))
            self.tree = parse(self.source)
        except (UnreadableError, UnparsableError) as error:
            raise PlanError(f"{path.name}: {error}") from error
        self.path = path
        self._functions = dict(_functions(self.tree.body, ""))
        self._bases = {node.name: _bases(node) for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def names(self) -> list[str]:
        """Its functions, and its methods as ``Class.method``."""
        return list(self._functions)

    def resolve(self, name: str) -> str:
        """The function or method in which ``f.<locals>.g`` is defined: ``f``."""
        while name and name not in self._functions:
            name = name.rpartition(".")[0]
        return name

    def runnable(self, name: str) -> bool:
        """Whether a call without arguments runs it: that of a coroutine gives what somebody has to await."""
        function = self._functions.get(name)
        return isinstance(function, ast.FunctionDef) and not _required_arguments(function, method="." in name)

    def require(self, name: str) -> None:
        """:raises PlanError: the file has no function of this name that can be called without arguments."""
        if name not in self._functions:
            raise PlanError(f"{self.path.name} defines no function {name}")
        if isinstance(self._functions[name], ast.AsyncFunctionDef):
            raise PlanError(f"{name} is a coroutine; confirm runs functions, such as one that awaits it")
        if not self.runnable(name):
            raise PlanError(f"{name} takes arguments; confirm runs functions without")

    def require_line(self, line: int) -> None:
        """:raises PlanError: no statement of a function is on the line."""
        if not self.holds(Place(line)):
            raise PlanError(f"line {line} of {self.path.name} holds no statement of a function")

    def holds(self, place: Place) -> bool:
        """Whether a statement of a function is there."""
        return node_at(self.tree, self.source, place) is not None

    def lines(self, name: str) -> range:
        """The lines of the function or method in which ``name`` is defined."""
        function = self._functions.get(self.resolve(name))
        return range(0) if function is None else range(function.lineno, (function.end_lineno or 0) + 1)

    def reachable(self, name: str) -> list[str]:
        """``name`` and the functions and methods of its file that it names, and so on from there.

        With a class go those that it inherits from: ``Steps().run()`` may run a method of a base of it.
        """
        found: list[str] = []
        todo = [name]
        while todo:
            current = todo.pop(0)
            function = self._functions.get(current)
            if function is None or current in found:
                continue
            found.append(current)
            named = self._named_in(function)
            todo.extend(other for other in self._functions if other.partition(".")[0] in named)
        return found

    def _named_in(self, function: _Function) -> set[str]:
        """Also what is only named, be it by its text: ``functools.partial(fill, x)``, ``run("fill")``."""
        todo = {name for node in ast.walk(function) if (name := _name(node))}
        named: set[str] = set()
        while todo:
            named |= todo
            todo = {base for name in todo for base in self._bases.get(name, ())} - named
        return named

    def drivers(self, name: str) -> list[str]:
        """The functions to call so that ``name`` runs: those of the module that reach it, else itself."""
        top = [f for f in self._functions if "." not in f and self.runnable(f)]
        reaching = [f for f in top if name in self.reachable(f)]
        return reaching or ([name] if self.runnable(name) else [])

    def work(self, name: str) -> list[Place]:
        """Every statement and lambda that may queue work, in all that ``name`` reaches."""
        places: list[Place] = []
        for current in self.reachable(name):
            for node, calls in _work(self._functions[current]):
                elsewhere = [c for c in calls if getattr(c.func, "id", None) not in self._functions]
                if not calls or any(_queues_work(call_name(call)) for call in elsewhere):
                    places.append(Place(node.lineno, _column(self.source, node)))
        return places


def _column(source: str, node: ast.stmt | ast.expr) -> int:
    line = lines_of(source)[node.lineno - 1]
    return len(line.encode()[: node.col_offset].decode())


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Constant(value=str() as name):
            return name
        case _:
            return ""


def _bases(node: ast.ClassDef) -> frozenset[str]:
    """``Ring`` of ``class Steps(Ring)``, and of ``class Steps(Ring[int])``."""
    return frozenset(one.id for base in node.bases for one in ast.walk(base) if isinstance(one, ast.Name))


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, _Function]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + node.name, node
            case ast.ClassDef():
                yield from _functions(node.body, f"{prefix}{node.name}.")
            case _:
                pass


def _required_arguments(function: _Function, *, method: bool) -> bool:
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional > (1 if method else 0) or None in arguments.kw_defaults


def _work(function: _Function) -> Iterator[tuple[ast.stmt | ast.expr, list[ast.Call]]]:
    """Statements and bodies of lambdas with their calls; without calls, operators: ``x += 2``."""
    for statement in _simple_statements(function.body):
        if isinstance(statement, ast.Raise):
            continue
        bodies: list[ast.stmt | ast.expr] = [
            node.body for node in ast.walk(statement) if isinstance(node, ast.Lambda)
        ]
        for node in [statement, *bodies]:
            calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            if calls or _computes(node):
                yield node, calls


def _computes(node: ast.stmt | ast.expr) -> bool:
    """Whether an operator or a store into a part may queue work: ``x += 2``, ``y = x * 2``, ``y[0] = x``."""
    stores = [target for target in getattr(node, "targets", []) if isinstance(target, ast.Subscript)]
    if isinstance(node, ast.AugAssign) or stores:
        return True
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)


def _simple_statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in body:
        blocks = any(isinstance(child, ast.stmt) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.stmt) and not blocks:
            yield node
        else:
            yield from _simple_statements(ast.iter_child_nodes(node))
