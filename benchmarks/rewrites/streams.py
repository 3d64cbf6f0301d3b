"""Contexts and waits of streams, told differently."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import Function, blocks, dotted, functions, has, read, written

if TYPE_CHECKING:
    from .program import Program

_CONTEXT = "torch.cuda.stream"
_SEVERAL_DEVICES = ("set_device", "device_count", "device_of")


def _call(node: ast.AST, method: str) -> tuple[ast.expr, ast.expr] | None:
    """Object and argument of the statement ``object.method(argument)``, if both are chains of names."""
    match node:
        case ast.Expr(ast.Call(ast.Attribute(owner, name), [given], [])) if name == method:
            return (owner, given) if _is_plain(owner) and _is_plain(given) else None
    return None


def _is_plain(expression: ast.expr) -> bool:
    if isinstance(expression, ast.Call) and not expression.args and not expression.keywords:
        return (dotted(expression.func) or "").endswith("current_stream")
    return dotted(expression) is not None


def _each_with(program: Program) -> list[tuple[list[ast.stmt], int, ast.With]]:
    return [
        (block, number, one)
        for block in blocks(program.tree)
        for number, one in reversed(list(enumerate(block)))
        if isinstance(one, ast.With) and len(one.items) == 1
    ]


def set_stream(program: Program) -> int:
    """``with torch.cuda.stream(s):`` by ``set_stream`` and back; not with several devices."""
    names = {dotted(one) or "" for one in ast.walk(program.tree) if isinstance(one, ast.expr)}
    if any(name.rpartition(".")[2] in _SEVERAL_DEVICES for name in names) or has(
        program.tree, ast.AsyncFunctionDef
    ):
        return 0
    count = 0
    for block, number, one in _each_with(program):
        match one.items[0]:
            case ast.withitem(ast.Call(func, [stream], []), None) if dotted(func) == _CONTEXT:
                block[number : number + 1] = written(
                    "WAS = torch.cuda.current_stream()\ntorch.cuda.set_stream(STREAM)\n"
                    "try:\n    BODY\nfinally:\n    torch.cuda.set_stream(WAS)",
                    one, WAS=program.fresh("was"), STREAM=stream, BODY=one.body,
                )  # fmt: skip
                count += 1
    return count


def exit_stack(program: Program) -> int:
    """Contexts are entered by an ``ExitStack``."""
    count = 0
    for block, number, one in _each_with(program):
        item = one.items[0]
        enter = (
            "STACK.enter_context(CONTEXT)"
            if item.optional_vars is None
            else "KEPT = STACK.enter_context(CONTEXT)"
        )
        block[number : number + 1] = written(
            f"with contextlib.ExitStack() as STACK:\n    {enter}\n    BODY",
            one, STACK=program.fresh("stack"), CONTEXT=item.context_expr, BODY=one.body,
            KEPT=item.optional_vars or item.context_expr,
        )  # fmt: skip
        program.imports.add("import contextlib")
        count += 1
    return count


def context_helper(program: Program) -> int:
    """``with torch.cuda.stream(s):`` by a context manager of the program's own."""
    found = [
        one
        for _, _, one in _each_with(program)
        if isinstance(call := one.items[0].context_expr, ast.Call) and dotted(call.func) == _CONTEXT
    ]
    if not found:
        return 0
    helper = program.fresh("on_stream")
    for one in found:
        call = one.items[0].context_expr
        assert isinstance(call, ast.Call)
        call.func = ast.Name(helper, ast.Load())
    program.tree.body += written(
        "@contextlib.contextmanager\ndef HELPER(stream):\n    with torch.cuda.stream(stream):\n        yield",
        program.tree.body[-1], HELPER=helper,
    )  # fmt: skip
    program.imports.add("import contextlib")
    return len(found)


def _each_wait(program: Program, template: str) -> int:
    count = 0
    for block in blocks(program.tree):
        for number, one in reversed(list(enumerate(block))):
            if (call := _call(one, "wait_stream")) and "torch" in program.names:
                waiting, waited = call
                block[number : number + 1] = written(
                    template, one, EVENT=program.fresh("reached"), A=waiting, B=waited
                )
                count += 1
    return count


def wait_by_record_event(program: Program) -> int:
    """``a.wait_stream(b)`` as ``a.wait_event(b.record_event())`` with a variable."""
    return _each_wait(program, "EVENT = B.record_event()\nA.wait_event(EVENT)")


def wait_by_event(program: Program) -> int:
    """``a.wait_stream(b)`` by an event that is made, recorded and waited for."""
    return _each_wait(program, "EVENT = torch.cuda.Event()\nEVENT.record(B)\nEVENT.wait(A)")


def wait_stream(program: Program) -> int:
    """``e = b.record_event()``, ``a.wait_event(e)`` as ``a.wait_stream(b)``, if nothing else uses ``e``."""
    count = 0
    for function in functions(program.tree):
        uses = [one.id for one in ast.walk(function) if isinstance(one, ast.Name)]
        for block in blocks(function):
            for number in reversed(range(len(block) - 1)):
                match block[number]:
                    case ast.Assign(
                        [ast.Name(event)], ast.Call(ast.Attribute(waited, "record_event"), [], [])
                    ):
                        call = _call(block[number + 1], "wait_event")
                        if call and dotted(call[1]) == event and uses.count(event) == 2 and _is_plain(waited):
                            block[number : number + 2] = written(
                                "A.wait_stream(B)", block[number + 1], A=call[0], B=waited
                            )
                            count += 1
    return count


def _each_body(program: Program, template: str) -> int:
    count = 0
    for function in functions(program.tree):
        if not isinstance(function, Function):
            continue
        body = function.body
        first = int(isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))
        if body[first:] and not has(body[first:], ast.Nonlocal, ast.Global):
            body[first:] = written(template, body[first], BODY=body[first:])
            count += 1
    return count


def null_context(program: Program) -> int:
    """All that functions do stands in ``with contextlib.nullcontext():``."""
    program.imports.add("import contextlib")
    return _each_body(program, "with contextlib.nullcontext():\n    BODY")


def try_finally(program: Program) -> int:
    """All that functions do stands in a ``try`` with a ``finally`` that does nothing."""
    return _each_body(program, "try:\n    BODY\nfinally:\n    pass")


def split_with(program: Program) -> int:
    """``with a, b:`` as two ``with``."""
    count = 0
    for one in [node for node in ast.walk(program.tree) if isinstance(node, ast.With)]:
        while len(one.items) > 1:
            last = one.items.pop()
            (inner,) = written("with X:\n    BODY", one, X=last.context_expr, BODY=one.body)
            assert isinstance(inner, ast.With)
            inner.items = [last]
            one.body = [inner]
            count += 1
    return count


def named_stream(program: Program) -> int:
    """The stream of a ``with`` has a variable: ``lane = self.side``, ``with torch.cuda.stream(lane):``."""
    count = 0
    for block, number, one in _each_with(program):
        match one.items[0].context_expr:
            case ast.Call(_, [stream], []) as call if dotted(call.func) == _CONTEXT and read(stream):
                name = program.fresh("lane")
                call.args = [ast.Name(name, ast.Load())]
                block[number : number + 1] = [*written("LANE = STREAM", one, LANE=name, STREAM=stream), one]
                count += 1
    return count
