"""What to run: a zero-argument function, and the pair of statements to test in it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamlint.confirm.instrument import Place, statement_at
from streamlint.confirm.streams import call_name, takes_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.finding import Finding

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


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold back ``earlier`` in ``function`` of ``path`` and watch ``later``.

    ``code`` and ``fingerprint`` name the finding under test; they are empty where the user named
    the line.
    """

    path: Path
    root: Path
    function: str
    earlier: Place
    later: Place | None = None
    code: str = ""
    fingerprint: str = ""
    turn: int | None = None
    """Hold back only this execution of the statement, counted from 0; ``None``: every one."""

    @property
    def expects_callback_error(self) -> bool:
        return self.code in ("", "SL301")


@dataclass(frozen=True, slots=True)
class Target:
    """``FILE`` or ``FILE::function`` as given on the command line."""

    path: Path
    function: str | None


def parse_target(text: str) -> Target:
    """:raises PlanError: the file does not exist."""
    name, _, function = text.partition("::")
    path = Path(name)
    if not path.is_file():
        raise PlanError(f"{name} is not a file")
    return Target(path.resolve(), function or None)


class Program:
    """The parsed text of one file."""

    def __init__(self, path: Path) -> None:
        """:raises PlanError: the file cannot be read or parsed."""
        try:
            self.source = path.read_text("utf-8")
            self.tree = ast.parse(self.source, str(path))
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            raise PlanError(f"{path.name}: {error}") from error
        self.path = path
        self._functions = dict(_functions(self.tree.body, ""))

    def runnable(self, name: str) -> bool:
        function = self._functions.get(name)
        return function is not None and not _required_arguments(function, method="." in name)

    def require(self, name: str) -> None:
        """:raises PlanError: the file has no function of this name that can be called without arguments."""
        if name not in self._functions:
            raise PlanError(f"{self.path.name} defines no function {name}")
        if not self.runnable(name):
            raise PlanError(f"{name} takes arguments; confirm runs functions without")

    def require_line(self, line: int) -> None:
        """:raises PlanError: no statement of a function is on the line."""
        if statement_at(self.tree, self.source, Place(line)) is None:
            raise PlanError(f"line {line} of {self.path.name} holds no statement of a function")

    def work(self, name: str) -> list[Place]:
        """Every statement that may queue work, in ``name`` and in what it calls by name in its file."""
        places: list[Place] = []
        seen: set[str] = set()
        todo = [name]
        while todo:
            current = todo.pop(0)
            function = self._functions.get(current)
            if function is None or current in seen:
                continue
            seen.add(current)
            # Also what is only named: functools.partial(fill, x) runs fill.
            named = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            todo.extend(name for name in self._functions if name.partition(".")[0] in named)
            for statement, calls in _calls(function):
                elsewhere = [c for c in calls if getattr(c.func, "id", None) not in self._functions]
                if any(_queues_work(call_name(call)) for call in elsewhere):
                    places.append(Place(statement.lineno, _column(self.source, statement)))
        return places


def _column(source: str, node: ast.stmt) -> int:
    line = source.splitlines()[node.lineno - 1]
    return len(line.encode()[: node.col_offset].decode())


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        match node:
            case ast.FunctionDef():
                yield prefix + node.name, node
            case ast.ClassDef():
                yield from _functions(node.body, f"{prefix}{node.name}.")
            case _:
                pass


def _required_arguments(function: ast.FunctionDef, *, method: bool) -> bool:
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional > (1 if method else 0) or None in arguments.kw_defaults


def _calls(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, list[ast.Call]]]:
    for statement in _simple_statements(function.body):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        if calls and not isinstance(statement, ast.Raise):
            yield statement, calls


def _simple_statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in body:
        blocks = any(isinstance(child, ast.stmt) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.stmt) and not blocks:
            yield node
        else:
            yield from _simple_statements(ast.iter_child_nodes(node))


def of_line(target: Target, root: Path, earlier: int, later: int | None) -> list[Plan]:
    """The pair that the user named.

    :raises PlanError: the target names no function, or a line holds no statement.
    """
    program, function = _named(target)
    for line in (earlier, later):
        if line is not None:
            program.require_line(line)
    return [Plan(target.path, root, function, Place(earlier), None if later is None else Place(later))]


def of_each_statement(target: Target, root: Path) -> list[Plan]:
    """One plan for every statement that may queue work: a correct program passes all of them.

    :raises PlanError: the target names no function.
    """
    program, function = _named(target)
    return [Plan(target.path, root, function, place) for place in program.work(function)]


def _named(target: Target) -> tuple[Program, str]:
    program = Program(target.path)
    if target.function is None:
        raise PlanError("name the function to run: FILE::function")
    program.require(target.function)
    return program, target.function


def of_findings(target: Target, root: Path, findings: Iterable[Finding]) -> list[Plan]:
    """The findings of the target's function, or of all functions of the file that can be run.

    :raises PlanError: the named function cannot be run.
    """
    program = Program(target.path)
    if target.function is not None:
        program.require(target.function)
    plans = []
    for finding in findings:
        function = _entry(finding, program)
        if function is None or (target.function is not None and target.function != function):
            continue
        spans = (finding.primary, *(related.span for related in finding.related))
        here = [span for span in spans if root / span.path == target.path]
        if not here:
            continue
        later = Place(here[0].line, here[0].col)
        earlier = Place(here[1].line, here[1].col) if len(here) > 1 else later
        plans.append(Plan(target.path, root, function, earlier, later, finding.code, finding.fingerprint))
    return plans


def _entry(finding: Finding, program: Program) -> str | None:
    """The function to call: the entry of the finding's trace, else the function it lies in."""
    names = [finding.function]
    if finding.evidence is not None:
        names.insert(0, finding.evidence.trace.entry)
    for name in names:
        # Entries may be written with their module in front: "pkg.mod.f" or "pkg.mod.C.f".
        parts = name.split(".")
        for start in range(len(parts)):
            candidate = ".".join(parts[start:])
            if program.runnable(candidate):
                return candidate
    return None
