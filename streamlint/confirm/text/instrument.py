"""Probe calls around the statements of a program, in memory; the user's file is never written.

The same text runs in all modes: a probe that has nothing to do in a mode returns at once, so the
serialized and the gated program differ in nothing but what the probes do. Line numbers stay, for
tracebacks and for kernels whose compilers look the source up.

``y.copy_(x, non_blocking=True)`` as the earlier statement becomes::

    __streamlint__.step()
    __streamlint__.hold_current()
    __streamlint__.call(7, y.copy_(x, non_blocking=True))

and ``cudart.cudaMemcpyAsync(dst, src, n, kind, stream)`` becomes::

    __streamlint__.step()
    __streamlint__.call(9, cudart.cudaMemcpyAsync(dst, src, n, kind, __streamlint__.hold(stream)))
"""

from __future__ import annotations

import ast
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.confirm.terms import assert_never
from streamlint.confirm.text.streams import (
    Among,
    Argument,
    Brackets,
    Element,
    Keyword,
    Position,
    Receiver,
    call_name,
    capture_role,
    plain_call,
    stream_argument,
)
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROBE: Final = "__streamlint__"

_COMPILED = ("jit", "kernel", "compile", "vectorize", "reduce")
"""Words of decorators that hand the function's bytecode or source to a GPU compiler."""

_COMPILING_CALLS = ("jit", "compile", "vectorize")


@frozen()
class Place:
    """Where a statement is: line from 1, column from 0 in code points (``None``: anywhere on the line)."""

    line: int
    col: int | None = None


class Purpose(Enum):
    """What the two statements are to show."""

    ORDER = "order"
    """That the later one does not wait for the earlier one."""
    REUSE = "reuse"
    """That the later one gives back memory which the earlier one still uses."""
    STALE = "stale"
    """That the earlier one gives back memory which the later one uses."""
    DEADLOCK = "deadlock"
    """That the later one, in a host callback, never ends."""


Node: TypeAlias = ast.stmt | ast.Lambda
"""What can be held back: a statement, or the body of a lambda each time it is called."""


def instrument(
    source: str,
    path: str,
    earlier: Place | None,
    later: Place | None,
    purpose: Purpose = Purpose.ORDER,
    *,
    late: bool = False,
) -> ast.Module:
    """The program with probes. ``late``: the operands are evaluated before anything is held back.

    :raises SyntaxError: the source is not Python.
    :raises LookupError: no statement of a function is at ``earlier`` or ``later``.
    """
    tree = ast.parse(source, path)
    places = _require(tree, source, earlier), _require(tree, source, later)
    operand = (
        None if places[0] is None or earlier is None or not late else _operand(places[0], source, earlier)
    )
    _Rewriter(*places, compiled(tree), purpose, operand).module(tree)
    return ast.fix_missing_locations(tree)


def _require(tree: ast.Module, source: str, place: Place | None) -> Node | None:
    if place is None:
        return None
    found = node_at(tree, source, place)
    if found is None:
        raise LookupError(f"line {place.line} holds no statement of a function")
    return found


def node_at(tree: ast.Module, source: str, place: Place) -> Node | None:
    """The innermost statement, or lambda, of a function that holds ``place``."""
    return innermost(_in_functions(tree), lines_of(source), place)


def _in_functions(tree: ast.Module) -> list[Node]:
    functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node for f in functions for node in statements(f) if node is not f]


def statements(tree: ast.AST) -> list[Node]:
    """All that can be held back, from the outside in, as ``ast.walk`` goes."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.Lambda)]


def innermost(nodes: Sequence[Node], lines: list[str], place: Place) -> Node | None:
    """The last of ``nodes`` (from the outside in) that holds ``place``."""
    return next((node for node in reversed(nodes) if _holds(node, lines, place)), None)


def _holds(node: Node, lines: list[str], place: Place) -> bool:
    held = node.body if isinstance(node, ast.Lambda) else node
    end = held.end_lineno or held.lineno
    if not held.lineno <= place.line <= end:
        return False
    if place.col is None:
        # Without a column, `fill = lambda: x.fill_(7.0)` is the assignment and not the body.
        return isinstance(node, ast.stmt)
    start = (held.lineno, _code_points(lines, held.lineno, held.col_offset))
    stop = (end, _code_points(lines, end, held.end_col_offset or 0))
    return start <= (place.line, place.col) < stop


def lines_of(source: str) -> list[str]:
    """The lines of a decoded source, as Python counts them: ``splitlines`` also splits at form feeds."""
    return source.split("\n")


def _code_points(lines: list[str], line: int, offset: int) -> int:
    """``ast`` counts columns in UTF-8 bytes."""
    return len(lines[line - 1].encode()[:offset].decode(errors="ignore"))


@frozen()
class _Operand:
    """A part of an operation: the one that is evaluated last."""

    operation: ast.AST
    field: str
    index: int | None = None

    def wrap(self, method: str) -> None:
        """``ones().add_(2)`` becomes ``ones().add_(__streamlint__.method(2))``."""
        value = getattr(self.operation, self.field)
        if self.index is None:
            setattr(self.operation, self.field, _call(method, [value], value))
        else:
            value[self.index] = _call(method, [value[self.index]], value[self.index])


def _operand(statement: Node, source: str, place: Place) -> _Operand | None:
    """Of the outermost operation that begins at ``place``, or of what the statement evaluates."""
    lines = lines_of(source)
    operations = [node for node in ast.walk(statement) if isinstance(node, ast.Call | ast.BinOp)]
    for node in operations:  # from the outside in
        if place.col is None or (node.lineno, _code_points(lines, node.lineno, node.col_offset)) == (
            place.line,
            place.col,
        ):
            return _last_of(node)
    if isinstance(statement, ast.AugAssign):
        return _Operand(statement, "value")
    return _last_of(operations[0]) if operations else None


def _last_of(operation: ast.Call | ast.BinOp) -> _Operand | None:
    match operation:
        case ast.BinOp():
            return _Operand(operation, "right")
        case ast.Call(keywords=[*_, keyword]):
            return _Operand(keyword, "value")
        case ast.Call(args=[*_, ast.Starred() as starred]):
            return _Operand(starred, "value")
        case ast.Call(args=[_, *_] as arguments):
            return _Operand(operation, "args", len(arguments) - 1)
        case ast.Call(func=ast.Attribute() as method):
            return _Operand(method, "value")
        case _:
            return None


def compiled(tree: ast.Module) -> frozenset[str]:
    """Functions that a GPU compiler reads: ``@cuda.jit``, and ``kernel = cuda.jit(f)``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, decorator_list=decorators) if _any_has(decorators, _COMPILED):
                names.add(name)
            case ast.Call(func=function, args=arguments) if _any_has([function], _COMPILING_CALLS):
                names |= {argument.id for argument in arguments if isinstance(argument, ast.Name)}
            case _:
                pass
    return frozenset(names)


def _any_has(nodes: list[ast.expr], words: tuple[str, ...]) -> bool:
    return any(word in ast.unparse(node).lower() for node in nodes for word in words)


class _Rewriter:
    def __init__(
        self,
        earlier: Node | None,
        later: Node | None,
        compiled_names: frozenset[str],
        purpose: Purpose,
        operand: _Operand | None,
    ) -> None:
        """``operand``: after which the earlier statement is held back, if not at its start."""
        self._operand = operand
        self._purpose = purpose
        self._earlier = earlier
        self._later = later
        self._compiled = compiled_names

    def module(self, tree: ast.Module) -> None:
        # Module bodies are not probed: importing the file must do what it always does.
        for node in tree.body:
            self._outside(node)

    def _outside(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                for member in node.body:
                    self._outside(member)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.stmt):
                        self._outside(child)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in self._compiled:
            node.body = self._block(node.body)

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            if _is_declaration(node):
                # `global x` and docstrings must stay where they are.
                out.append(node)
                continue
            out.append(_probe("step", node))
            out.extend(self._statement(node))
        if out and not isinstance(out[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
            out.append(_probe("step", body[-1]))
        return out

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        stale = self._purpose is Purpose.STALE
        if node is self._later:
            before.append(_probe("begin_later", node))
        header = _Header(self._earlier, self._later, node, self._purpose)
        plain = plain_call(node)
        header.rewrite(node)
        if stale and isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            # What calls return is seen anyway.
            node.value = _call("made", [node.value], node)
        if node is self._earlier and stale:
            after += _end(node, "gave_back")
        elif node is self._earlier and not header.streams:
            if self._operand is not None:
                self._operand.wrap("hold_after")
            elif plain is None:
                before.append(_probe("hold_current", node))
            else:
                # fill(x, n, s)  ->  fill(*__streamlint__.hold_among(x, n, s))
                plain.args = [ast.Starred(_call("hold_among", plain.args, plain), ast.Load())]
            after += _end(node, "end_earlier")
        if node is self._later:
            after += _end(node, "end_later")
        self._inner(node)
        if node is self._later:
            node = _told(node)
            if self._purpose is Purpose.DEADLOCK:
                node = ast.copy_location(ast.If(_call("proceeds", [], node), [node], []), node)
        return [*before, node, *after]

    def _inner(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._outside(node)
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
                node.body = self._block(node.body)
                node.orelse = self._block(node.orelse)
            case ast.With() | ast.AsyncWith():
                node.body = self._block(node.body)
            case ast.Try():
                node.body = self._block(node.body)
                node.orelse = self._block(node.orelse)
                node.finalbody = self._block(node.finalbody)
                for handler in node.handlers:
                    # Before the program can hide an error that is the evidence.
                    handler.body = [_probe("caught", handler.body[0]), *self._block(handler.body)]
            case ast.Match():
                for case in node.cases:
                    case.body = self._block(case.body)
            case _:
                pass


def _end(node: ast.stmt, method: str) -> list[ast.stmt]:
    """The probe after a statement; that of ``return x.item()`` goes around what is returned."""
    if isinstance(node, ast.Return):
        # return x.item()  ->  return __streamlint__.end_later(x.item())
        node.value = _call(method, [node.value or ast.Constant(None)], node)
        return []
    return [_probe(method, node)]


class _Header(ast.NodeTransformer):
    """Rewrites the expressions that a statement itself evaluates, not those of its blocks."""

    def __init__(self, earlier: Node | None, later: Node | None, node: Node, purpose: Purpose) -> None:
        self._earlier = earlier
        self._later = later
        self._purpose = purpose
        is_earlier, is_later = node is earlier, node is later
        stale = purpose is Purpose.STALE
        self._frees = (purpose is Purpose.REUSE and is_later) or (stale and is_earlier)
        # Nothing is held back where memory is given back first and used afterwards.
        is_held = is_earlier and not stale
        self._role = "hold" if is_held and not is_later else "later" if is_later and not is_held else ""
        self._both = is_held and is_later
        self.streams = 0

    def rewrite(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for name, value in ast.iter_fields(statement):
            if name in ("annotation", "type_params"):
                continue
            if isinstance(value, ast.expr):
                setattr(statement, name, self.visit(value))
            elif isinstance(value, list):
                # with-items, targets and the like; statements, handlers and cases are blocks
                kinds = (ast.expr, ast.withitem)
                setattr(statement, name, [self.visit(v) if isinstance(v, kinds) else v for v in value])

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        if node is not self._earlier and node is not self._later:
            self.generic_visit(node)
            return node
        inner = _Header(self._earlier, self._later, node, self._purpose)
        body: ast.expr = inner.visit(node.body)
        before: list[ast.expr] = []
        if node is self._later:
            if self._purpose is Purpose.DEADLOCK:
                body = ast.BoolOp(ast.And(), [_call("proceeds", [], node), body])
            before.append(_call("begin_later", [], node))
            body = _call("end_later", [body], node)
        if node is self._earlier and self._purpose is Purpose.STALE:
            body = _call("gave_back", [body], node)
        elif node is self._earlier and not inner.streams:
            before.append(_call("hold_current", [], node))
        # The probes return None, so `or` goes on to the body.
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [*before, body]), node.body) if before else body
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        argument = stream_argument(node)
        self.generic_visit(node)
        if self._frees and (self._purpose is Purpose.REUSE or _gives_back(node)):
            node.args = [_freed(argument) for argument in node.args]
            if isinstance(node.func, ast.Attribute):
                node.func.value = _freed(node.func.value)
        if argument is not None and (self._role or self._both):
            self._wrap_stream(node, argument)
        return _call(capture_role(node), [ast.Constant(node.lineno), node], node)

    def _wrap_stream(self, node: ast.Call, argument: Argument) -> None:
        self.streams += 1
        wrap_stream(node, argument, self._stream)

    def _stream(self, value: ast.expr, kind: str) -> ast.expr:
        if self._both:
            return _call(f"hold{kind}", [_call(f"later{kind}", [value], value)], value)
        return _call(f"{self._role}{kind}", [value], value)


def _gives_back(node: ast.Call) -> bool:
    """``cudaFree(x)``, ``x.close()``: in a serialized run other memory is given back instead.

    ``graph = captured(x)`` may be the end of other memory, and must get its own.
    """
    return any(word in call_name(node).lower() for word in ("free", "close"))


def _freed(value: ast.expr) -> ast.expr:
    """What a call may give back: ``cudaFree(x)``, ``x.close()``."""
    return _call("freed", [value], value) if isinstance(value, ast.Name) else value


def wrap_stream(node: ast.Call, argument: Argument, wrapped: Callable[[ast.expr, str], ast.expr]) -> None:
    """Put ``wrapped(stream, kind)`` where ``node`` names its stream; ``kind`` ends the probe's name."""
    match argument:
        case Keyword(name):
            keyword = next(k for k in node.keywords if k.arg == name)
            keyword.value = wrapped(keyword.value, "")
        case Position(index):
            node.args[index] = wrapped(node.args[index], "")
        case Element(index):
            launch = node.func
            assert isinstance(launch, ast.Subscript)
            assert isinstance(launch.slice, ast.Tuple)
            launch.slice.elts[index] = wrapped(launch.slice.elts[index], "")
        case Brackets():
            launch = node.func
            assert isinstance(launch, ast.Subscript)
            launch.slice = wrapped(launch.slice, "_launch")
        case Receiver():
            assert isinstance(node.func, ast.Attribute)
            node.func.value = wrapped(node.func.value, "")
        case Among():
            together = ast.copy_location(ast.Tuple(node.args, ast.Load()), node)
            node.args = [ast.copy_location(ast.Starred(wrapped(together, "_arguments"), ast.Load()), node)]
        case _:
            assert_never(argument)


def _told(node: ast.stmt) -> ast.Try:
    """The statement, with a word to the probe of what it raises: CuPy loses it at the end of a callback."""
    told: list[ast.stmt] = [_probe("caught", node), ast.copy_location(ast.Raise(), node)]
    anything = ast.copy_location(ast.Name("BaseException", ast.Load()), node)
    handler = ast.copy_location(ast.ExceptHandler(anything, None, told), node)
    return ast.copy_location(ast.Try([node], [handler], [], []), node)


def _is_declaration(node: ast.stmt) -> bool:
    if isinstance(node, ast.Global | ast.Nonlocal):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _call(method: str, arguments: list[ast.expr], at: ast.stmt | ast.expr) -> ast.Call:
    func = ast.Attribute(ast.Name(PROBE, ast.Load()), method, ast.Load())
    node = ast.Call(func, arguments, [])
    for part in (func.value, func, node):
        ast.copy_location(part, at)
    return node


def _probe(method: str, at: ast.stmt) -> ast.Expr:
    return ast.copy_location(ast.Expr(_call(method, [], at)), at)
