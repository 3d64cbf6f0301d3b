"""Which line of the user's code an event belongs to, and what the source calls things there.

Finding the place runs for every event, so it only walks frames; a place is read from the source
when a trace needs it, once.
"""

from __future__ import annotations

import ast
import os
import site
import sys
import sysconfig
import threading
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.files import UnreadableError, read, text_of
from streamlint.frozen import frozen
from streamlint.parsing import UnparsableError, parse
from streamlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from streamlint.confirm.observe.events import Place, Places


def library_folders() -> tuple[str, ...]:
    """Folders whose code is never the user's: the standard library, installed packages, this package."""
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    found.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))  # noqa: PTH120
    real = {os.path.realpath(path) for path in found}
    return tuple(sorted(path.rstrip(os.sep) + os.sep for path in {*found, *real}))


MOST_CALLERS = 4
"""Callers that are asked for the name of a stream or an event."""


class Frames:
    """Finds the innermost frame of the user's code."""

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self._libraries = libraries
        self._is_user: dict[str, bool] = {}
        self._main = threading.main_thread().ident
        self.backward: Callable[[], int] = lambda: -1
        """The number of the backward pass that this thread is working for, or -1."""
        self._last: tuple[int, Place] = (-1, None)
        """Where the main thread waits for the last backward pass."""

    def place(self) -> Place:
        found = self._innermost(sys._getframe(1))
        if found is None and threading.get_ident() != self._main and self._main is not None:
            # A thread without Python code of the user, such as autograd's: the main thread waits for it,
            # in `loss.backward()`, until the pass is over.
            number = self.backward()
            if number >= 0 and number == self._last[0]:
                return self._last[1]
            found = self._innermost(sys._current_frames().get(self._main))
            self._last = number, found
        return found

    def callers(self) -> Places:
        """The innermost places of the user's code, and those that called them."""
        places: list[Place] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(places) < MOST_CALLERS:
            if self._knows(frame.f_code.co_filename):
                places.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return tuple(places)

    def _knows(self, filename: str) -> bool:
        known = self._is_user.get(filename)
        if known is None:
            known = self._is_user[filename] = self.is_user(filename)
        return known

    def _innermost(self, frame: FrameType | None) -> Place:
        known = self._is_user
        while frame is not None:
            code = frame.f_code
            # By file name: its hash is kept in the string, that of a code object is computed each time.
            is_user = known.get(code.co_filename)
            if is_user or (is_user is None and self._knows(code.co_filename)):
                return (code, frame.f_lasti)
            frame = frame.f_back
        return None

    def is_user(self, filename: str) -> bool:
        if filename.startswith("<") or "site-packages" in filename or "dist-packages" in filename:
            return False
        return not os.path.abspath(filename).startswith(self._libraries)  # noqa: PTH100


NOWHERE = Span("", 0, 0, 0, 0)


@frozen()
class Located:
    """A place as the source has it. ``node`` is the expression at the span, if there is one."""

    span: Span
    function: str
    node: ast.AST | None = None
    assigned: str = ""
    """What the statement calls the value: ``x`` in ``x = torch.empty(n)``."""
    ignored: bool = False
    """The expression is a statement of its own: nothing looks at its value."""
    modules: frozenset[str] = frozenset()
    """Names that the file's imports give to modules: what is called of them are functions, not methods."""

    def operand(self, number: int) -> str:
        """What the source calls the operand: ``y`` is number 0 and ``x`` number 1 of ``y.copy_(x)``."""
        operands = _operands(self.node, self.modules)
        return _text(operands[number]) if 0 <= number < len(operands) else ""


@dataclass(slots=True)
class Sources:
    """Reads places from source files below ``root``; a file that cannot be read has lines only."""

    root: Path
    _modules: dict[str, _Module | None] = field(default_factory=dict)
    _located: dict[tuple[int, int], tuple[CodeType, Located]] = field(default_factory=dict)
    """By the identity of the code object, which is kept alive here."""

    def locate(self, place: Place) -> Located:
        if place is None:
            return Located(NOWHERE, "")
        code, offset = place
        known = self._located.get((id(code), offset))
        if known is None:
            known = self._located[id(code), offset] = (code, self._find(code, offset))
        return known[1]

    def name(self, places: Places) -> str:
        """What the source calls a value made at the first place: a caller may name what it returns."""
        return next(filter(None, (self.locate(place).assigned for place in places)), "")

    def _find(self, code: CodeType, offset: int) -> Located:
        path = os.path.relpath(os.path.abspath(code.co_filename), self.root).replace(os.sep, "/")  # noqa: PTH100
        function = getattr(code, "co_qualname", code.co_name)
        function = "" if function == "<module>" else function
        line, end_line, col, end_col = _positions(code, offset)
        if code.co_filename not in self._modules:
            self._modules[code.co_filename] = _Module.read(code.co_filename)
        module = self._modules[code.co_filename]
        if module is None:
            return Located(Span(path, line, 0, line, 1), function)
        if col is None or end_col is None:
            text = module.line(line)
            indent = len(text) - len(text.lstrip())
            return Located(Span(path, line, indent, line, max(len(text), 1)), function)
        span = Span(path, line, module.column(line, col), end_line, module.column(end_line, end_col))
        extent = (line, col, end_line, end_col)
        node = module.nodes.get(extent)
        assigned, ignored = module.assigned.get(extent, ""), extent in module.ignored
        return Located(span, function, node, assigned, ignored, frozenset(module.imported))


class _Module:
    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = text.split("\n")
        self.nodes: dict[tuple[int, int, int, int], ast.expr] = {}
        self.assigned: dict[tuple[int, int, int, int], str] = {}
        self.ignored: set[tuple[int, int, int, int]] = set()
        self.imported: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                self.nodes.setdefault(_extent(node), node)
            self.imported.update(_modules(node))
            if isinstance(node, ast.Expr):
                self.ignored.add(_extent(node.value))
            for target, value in _assignments(node):
                name = _text(target)
                for inner in _heads(value):
                    self.assigned[_extent(inner)] = name

    @classmethod
    def read(cls, filename: str) -> _Module | None:
        try:
            text = text_of(read(Path(filename)))
            return cls(text, parse(text))
        except (UnreadableError, UnparsableError):
            return None

    def line(self, number: int) -> str:
        return self._lines[number - 1] if 1 <= number <= len(self._lines) else ""

    def column(self, line: int, offset: int) -> int:
        """Offsets of code objects and syntax trees count bytes of UTF-8; spans count code points."""
        text = self.line(line)
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def _extent(node: ast.expr) -> tuple[int, int, int, int]:
    return (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def _positions(code: CodeType, offset: int) -> tuple[int, int, int | None, int | None]:
    """First and last line, and the columns where this version of Python keeps them."""
    if hasattr(code, "co_positions"):
        found = next(islice(code.co_positions(), offset // 2, None), None)
        if found is not None and found[0] is not None:
            return (found[0], found[1] or found[0], found[2], found[3])
    lines = [at for start, end, at in code.co_lines() if start <= offset < end and at is not None]
    first = lines[0] if lines else code.co_firstlineno
    return (first, first, None, None)


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=[target, *_], value=value):
            yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value


def _heads(value: ast.expr) -> Iterator[ast.expr]:
    """The calls whose result is the value or is unpacked into it: ``check(f(x))`` stands for ``f(x)``."""
    yield value
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Name) and len(value.args) == 1:
            yield from _heads(value.args[0])
        if isinstance(value.func, ast.Attribute):
            yield from _heads(value.func.value)


def _modules(node: ast.AST) -> Iterator[str]:
    """The names that an import gives to modules, those that it has loaded."""
    match node:
        case ast.Import(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(module=str(package), names=names, level=0):
            loaded = (alias for alias in names if f"{package}.{alias.name}" in sys.modules)
            yield from (alias.asname or alias.name for alias in loaded)
        case _:
            pass


def _operands(node: ast.AST | None, modules: frozenset[str]) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Call(func=ast.Attribute(value=value), args=args) if _root(value) not in modules:
            return [value, *args]
        case ast.Call(args=args):
            return list(args)
        case ast.Subscript(value=value):
            return [value]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case _:
            return []


def _root(value: ast.expr) -> str:
    """``torch`` of ``torch.add(x, y)``, ``F`` of ``F.relu(x)``."""
    return _text(value).partition(".")[0]


def _text(node: ast.expr) -> str:
    """A name, an attribute or an element of one, as the source has it; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            inner = _text(value)
            return f"{inner}.{attr}" if inner else ""
        case ast.Subscript(value=value, slice=ast.Name() | ast.Constant()):
            inner = _text(value)
            return f"{inner}[{ast.unparse(node.slice)}]" if inner else ""
        case _:
            return ""
