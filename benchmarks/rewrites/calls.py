"""Calls and names of modules, told differently."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import Function, blocks, dotted, functions, methods, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from .program import Program


def _own_functions(program: Program) -> dict[str, Function]:
    """Functions of the module, and constructors by the names of their classes; of names bound once."""
    found: dict[str, Function] = {}
    bound = [
        one.id
        for one in ast.walk(program.tree)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    bound += [one.arg for one in ast.walk(program.tree) if isinstance(one, ast.arg)]
    for one in program.tree.body:
        if isinstance(one, Function) and not one.decorator_list and one.name not in bound:
            found[one.name] = one
        elif isinstance(one, ast.ClassDef) and not one.decorator_list and one.name not in bound:
            for method in one.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    found[one.name] = method
    return found


def _own_methods(program: Program) -> dict[str, Function]:
    """Methods of which only one in the file has the name."""
    of = methods(program.tree)
    every = [one for one in functions(program.tree) if id(one) in of]
    names = [one.name for one in every]
    return {one.name: one for one in every if names.count(one.name) == 1 and not one.decorator_list}


def keywords(program: Program) -> int:
    """Arguments of the file's own functions, constructors and methods are given by their names."""
    count = 0
    own, of_objects = _own_functions(program), _own_methods(program)
    for call in [one for one in ast.walk(program.tree) if isinstance(one, ast.Call) and one.args]:
        match call.func:
            case ast.Name(name) if name in own:
                function, bare = own[name], name in own and own[name].name != "__init__"
            case ast.Attribute(ast.Name("self"), name) if name in of_objects:
                function, bare = of_objects[name], False
            case _:
                continue
        names = [one.arg for one in function.args.args][0 if bare else 1 :]
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        if starred or function.args.posonlyargs or len(names) < len(call.args):
            continue
        given = [ast.keyword(name, value) for name, value in zip(names, call.args, strict=False)]
        call.keywords = [*given, *call.keywords]
        call.args = []
        count += 1
    return count


def _statement_calls(program: Program, change: Callable[[ast.Call], ast.expr | None]) -> int:
    """Changes calls that are statements, or the value of an assignment or a return."""
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            for one in block:
                value = one.value if isinstance(one, (ast.Expr, ast.Assign, ast.Return)) else None
                if isinstance(value, ast.Call) and (other := change(value)) is not None:
                    one.value = other
                    count += 1
    return count


def partial(program: Program) -> int:
    """``f(a, b)`` of the file's own functions and methods as ``functools.partial(f, a, b)()``."""
    own, of_objects = _own_functions(program), _own_methods(program)

    def change(call: ast.Call) -> ast.expr | None:
        match call.func:
            case ast.Name(name) if name in own:
                pass
            case ast.Attribute(ast.Name("self"), name) if name in of_objects:
                pass
            case _:
                return None
        taken = ast.parse("functools.partial", mode="eval").body
        return ast.Call(ast.Call(taken, [call.func, *call.args], call.keywords), [], [])

    if count := _statement_calls(program, change):
        program.imports.add("import functools")
    return count


def by_lambda(program: Program) -> int:
    """``f(a)`` of the file's own functions and methods as ``(lambda: f(a))()``."""
    own, of_objects = _own_functions(program), _own_methods(program)
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])

    def change(call: ast.Call) -> ast.expr | None:
        match call.func:
            case ast.Name(name) if name in own:
                return ast.Call(ast.Lambda(nothing, call), [], [])
            case ast.Attribute(ast.Name("self"), name) if name in of_objects:
                return ast.Call(ast.Lambda(nothing, call), [], [])
        return None

    return _statement_calls(program, change)


def _imported(program: Program) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for one in ast.walk(program.tree)
        if isinstance(one, (ast.Import, ast.ImportFrom))
        for alias in one.names
    }


def by_getattr(program: Program) -> int:
    """Methods are taken by ``getattr(x, "name")``."""
    modules = _imported(program)
    count = 0
    for call in [one for one in ast.walk(program.tree) if isinstance(one, ast.Call)]:
        match call.func:
            case ast.Attribute(owner, name) if not name.startswith("__"):
                if (dotted(owner) or "").partition(".")[0] in modules or _is_super(owner):
                    continue
                call.func = ast.Call(ast.Name("getattr", ast.Load()), [owner, ast.Constant(name)], [])
                count += 1
    return count


def _is_super(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"


def alias(program: Program) -> int:
    """``s.wait_stream(b)`` as ``call = s.wait_stream``, ``call(b)``, ``del call``."""
    modules = _imported(program)
    count = 0
    for function in functions(program.tree):
        for block in blocks(function):
            for number in reversed(range(len(block))):
                match block[number]:
                    case ast.Expr(ast.Call(ast.Attribute(owner), _, _)) as one:
                        if (dotted(owner) or ".").partition(".")[0] in {*modules, ""}:
                            continue
                        assert isinstance(one.value, ast.Call)
                        name = program.fresh("call")
                        taken = written("CALL = F", one, CALL=name, F=one.value.func)
                        one.value.func = ast.Name(name, ast.Load())
                        block[number : number + 1] = [*taken, one, *written("del CALL", one, CALL=name)]
                        count += 1
    return count


class _Module(ast.NodeTransformer):
    """Takes ``package.cuda`` by another name, and ``package.cuda.Stream`` by one of its own if asked."""

    def __init__(self, chain: str, name: str) -> None:
        self.chain, self.name, self.count = chain, name, 0

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if dotted(node) == self.chain:
            self.count += 1
            return ast.Name(self.name, ast.Load())
        self.generic_visit(node)
        return node


def _packages(program: Program) -> list[tuple[str, str]]:
    """What ``torch`` and ``cupy`` are imported as."""
    return [
        (alias.name, alias.asname or alias.name)
        for one in program.tree.body
        if isinstance(one, ast.Import)
        for alias in one.names
        if alias.name in {"torch", "cupy"}
    ]


def _renamed_module(program: Program, line: str) -> int:
    count = 0
    for package, known_as in _packages(program):
        name = program.fresh("gpu")
        change = _Module(f"{known_as}.cuda", name)
        change.visit(program.tree)
        if change.count:
            program.imports.add(line.format(package=package, name=name))
        count += change.count
    return count


def from_import(program: Program) -> int:
    """``from torch import cuda as gpu``."""
    return _renamed_module(program, "from {package} import cuda as {name}")


def import_as(program: Program) -> int:
    """``import torch.cuda as gpu``."""
    return _renamed_module(program, "import {package}.cuda as {name}")


def module_in_variable(program: Program) -> int:
    """``gpu = torch.cuda`` at the top of the module."""
    count = 0
    for _, known_as in _packages(program):
        name = program.fresh("gpu")
        change = _Module(f"{known_as}.cuda", name)
        change.visit(program.tree)
        if change.count:
            last = max(
                n for n, one in enumerate(program.tree.body) if isinstance(one, (ast.Import, ast.ImportFrom))
            )
            program.tree.body[last + 1 : last + 1] = written(
                f"NAME = {known_as}.cuda", program.tree.body[last], NAME=name
            )
        count += change.count
    return count


def starred(program: Program) -> int:
    """``f(a, b)`` of the file's own functions and methods as ``f(*(a, b))``."""
    own, of_objects = _own_functions(program), _own_methods(program)
    count = 0
    for call in [one for one in ast.walk(program.tree) if isinstance(one, ast.Call) and one.args]:
        match call.func:
            case ast.Name(name) if name in own:
                pass
            case ast.Attribute(ast.Name("self"), name) if name in of_objects:
                pass
            case _:
                continue
        call.args = [ast.Starred(ast.Tuple(call.args, ast.Load()), ast.Load())]
        count += 1
    return count
