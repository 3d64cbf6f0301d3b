"""Where a function keeps its variables, and which function has them, told differently."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import (
    Function,
    Scope,
    behind_docstring,
    blocks,
    bound,
    functions,
    has,
    methods,
    own_nodes,
    parameters,
    read,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .program import Program

_MOVABLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.With)
_SMALLEST = 2
_AS_A_HELPER = 2


def _stays(statement: ast.stmt) -> bool:
    """Whether a statement cannot stand in a helper."""
    left = (
        ast.Yield,
        ast.YieldFrom,
        ast.Await,
        ast.Return,
        ast.NamedExpr,
        ast.Delete,
        ast.Nonlocal,
        ast.Global,
    )
    return not isinstance(statement, _MOVABLE) or has(
        statement,
        *left,
        ast.Break,
        ast.Continue,
        ast.Lambda,
        *Scope.__args__,
        ast.If,
        ast.For,
        ast.While,
        ast.Try,
    )


def _runs(block: list[ast.stmt]) -> list[tuple[int, int]]:
    """Longest runs of statements that can move: from, to."""
    found, first = [], None
    for number, one in enumerate([*block, ast.Pass()]):
        if _stays(one):
            if first is not None and number - first >= _SMALLEST:
                found.append((first, number))
            first = None
        elif first is None:
            first = number
    return found


def _locals(function: Function) -> set[str]:
    names = {
        one.id
        for one in own_nodes(function)
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }
    return names | set(parameters(function))


def _moved(program: Program, place: Callable[[Function, ast.stmt, str], str | None], *, half: bool) -> int:
    """Moves the longest run of each function into a helper.

    ``place`` puts that somewhere and says how it is called.
    """
    count = 0
    for function in functions(program.tree):
        if has(function.body, ast.Nonlocal, ast.Global) or "super" in read(function):
            continue
        inner = [one for one in ast.walk(function) if isinstance(one, Scope) and one is not function]
        if inner or isinstance(function, ast.AsyncFunctionDef):
            continue
        block = function.body
        first = behind_docstring(block)
        runs = [(max(a, first), b) for a, b in _runs(block) if b - max(a, first) >= _SMALLEST]
        if not runs:
            continue
        start, end = max(runs, key=lambda one: one[1] - one[0])
        if half:
            start += (end - start) // 2
        moved = block[start:end]
        own = _locals(function)
        comprehended = {
            n for s in moved for c in ast.walk(s) if isinstance(c, ast.comprehension) for n in bound(c.target)
        }
        before = {n for one in block[:start] for n in bound(one)} | set(parameters(function))
        taken = sorted(n for n in read(moved) & own & before)
        given = sorted(bound(moved) - comprehended)
        unsure = (read(moved) & own) - before - set(given) - comprehended
        if set(given) & before or comprehended & own & before or unsure:
            continue  # what has a new value here would live longer
        if any(isinstance(one, ast.AugAssign) and bound(one.target) for one in moved):
            continue
        name = program.fresh("part")
        back = f"\n    return {', '.join(given)}" if given else ""
        (helper,) = written(f"def NAME({', '.join(taken)}):\n    BODY{back}", moved[0], NAME=name, BODY=moved)
        how = place(function, helper, name)
        if how is None:
            continue
        call = f"{how}({', '.join(taken)})"
        block[start:end] = written(f"{', '.join(given)} = {call}" if given else call, moved[0])
        count += 1
    return count


def helper(program: Program) -> int:
    """Straight statements of a function stand in a function of the module."""

    def place(_: Function, made: ast.stmt, name: str) -> str:
        program.tree.body.append(made)
        return name

    return _moved(program, place, half=False)


def half_helper(program: Program) -> int:
    """The second half of straight statements stands in a function of the module."""

    def place(_: Function, made: ast.stmt, name: str) -> str:
        program.tree.body.append(made)
        return name

    return _moved(program, place, half=True)


def static_method(program: Program) -> int:
    """Straight statements of a method stand in a static method of its class."""
    of = methods(program.tree)

    def place(function: Function, made: ast.stmt, name: str) -> str | None:
        owner = of.get(id(function))
        if owner is None or function.decorator_list or parameters(function)[:1] != ["self"]:
            return None
        assert isinstance(made, ast.FunctionDef)
        made.decorator_list = [ast.Name("staticmethod", ast.Load())]
        owner.body.append(made)
        return f"self.{name}"

    return _moved(program, place, half=False)


def inner_helper(program: Program) -> int:
    """Straight statements of a function stand in a function inside of it, with parameters."""

    def place(function: Function, made: ast.stmt, name: str) -> str:
        function.body.insert(behind_docstring(function.body), made)
        return name

    count = 0
    for function in functions(program.tree):
        single = type(program)(ast.Module([function], []), program.imports, program.names)
        inserted: list[ast.stmt] = []

        def keep(_: Function, made: ast.stmt, name: str, into: list[ast.stmt] = inserted) -> str:
            into.append(made)
            return name

        count += _moved(single, keep, half=False)
        first = behind_docstring(function.body)
        function.body[first:first] = inserted
    return count


class _Kept(ast.NodeTransformer):
    """Variables of a function as parts of one object."""

    def __init__(self, names: set[str], part: Callable[[str, ast.expr_context], ast.expr]) -> None:
        self.names, self.part = names, part

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.part(node.id, node.ctx) if node.id in self.names else node


def _kept(program: Program, empty: str, part: Callable[[str, str, ast.expr_context], ast.expr]) -> int:
    count = 0
    for function in functions(program.tree):
        if [one for one in ast.walk(function) if isinstance(one, Scope) and one is not function]:
            continue
        if has(function.body, ast.Nonlocal, ast.Global, ast.ExceptHandler, ast.NamedExpr):
            continue
        if has(function.body, ast.Import, ast.ImportFrom):
            continue
        comprehended = {
            n for c in ast.walk(function) if isinstance(c, ast.comprehension) for n in bound(c.target)
        }
        names = _locals(function) - set(parameters(function)) - comprehended
        if not names:
            continue
        state = program.fresh("state")
        first = behind_docstring(function.body)
        change = _Kept(names, lambda name, ctx, state=state: part(state, name, ctx))  # type: ignore[misc]
        function.body = [change.visit(one) for one in function.body]
        for one in ast.walk(function):
            if isinstance(one, ast.AnnAssign):
                one.simple = 0
        function.body[first:first] = written(f"{state} = {empty}", function.body[first])
        count += len(names)
    return count


def kept_in_object(program: Program) -> int:
    """Variables of functions are attributes of a ``SimpleNamespace``."""
    count = _kept(
        program,
        "types.SimpleNamespace()",
        lambda state, name, ctx: ast.Attribute(ast.Name(state, ast.Load()), name, ctx),
    )
    if count:
        program.imports.add("import types")
    return count


def kept_in_dict(program: Program) -> int:
    """Variables of functions are values of a dict."""
    return _kept(
        program,
        "{}",
        lambda state, name, ctx: ast.Subscript(ast.Name(state, ast.Load()), ast.Constant(name), ctx),
    )


def results_in_tuple(program: Program) -> int:
    """``x = f(a)`` as ``found = (f(a), 0)``, ``x = found[0]``, ``del found``."""
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            for number in reversed(range(len(block))):
                match block[number]:
                    case ast.Assign([ast.Name(name)], value) as one if isinstance(value, ast.Call):
                        if name in read(value):
                            continue
                        block[number : number + 1] = written(
                            "FOUND = (V, 0)\nX = FOUND[0]\ndel FOUND",
                            one,
                            FOUND=program.fresh("found"),
                            V=value,
                            X=name,
                        )
                        count += 1
    return count


def _returned(program: Program, template: str) -> int:
    count = 0
    for function in functions(program.tree):
        if isinstance(function, ast.AsyncFunctionDef):
            continue
        for block in blocks(function):
            for number in reversed(range(len(block))):
                one = block[number]
                if isinstance(one, ast.Return) and isinstance(one.value, ast.Call):
                    block[number : number + 1] = written(
                        template, one, X=program.fresh("result"), V=one.value
                    )
                    count += 1
    return count


def named_result(program: Program) -> int:
    """``return f(a)`` as ``result = f(a)``, ``return result``."""
    return _returned(program, "X = V\nreturn X")


def named_arguments(program: Program) -> int:
    """Calls among the arguments of a statement's call have variables, which are dropped behind it."""
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            for number in reversed(range(len(block))):
                one = block[number]
                if not isinstance(one, (ast.Expr, ast.Assign)) or not isinstance(one.value, ast.Call):
                    continue
                call = one.value
                first = call.args[0] if call.args else None
                simple = isinstance(call.func, ast.Name) or (
                    isinstance(call.func, ast.Attribute) and not has(call.func, ast.Call, ast.Subscript)
                )
                if (
                    not simple
                    or not isinstance(first, ast.Call)
                    or has(one, ast.Lambda, ast.NamedExpr, ast.Await)
                ):
                    continue
                name = program.fresh("given")
                call.args[0] = ast.Name(name, ast.Load())
                block[number : number + 1] = [
                    *written("X = V", one, X=name, V=first), one, *written("del X", one, X=name)
                ]  # fmt: skip
                count += 1
    return count
