"""Where a class keeps what it holds, and where that is made, told differently."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from .program import Function, behind_docstring, bound, has, parameters, read, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Program


def _constructors(program: Program) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """Classes of the module with a plain constructor, and that."""
    for one in [node for node in ast.walk(program.tree) if isinstance(node, ast.ClassDef)]:
        for method in one.body:
            if (
                isinstance(method, ast.FunctionDef)
                and method.name == "__init__"
                and not method.decorator_list
            ):
                yield one, method


def _is_super(statement: ast.stmt) -> bool:
    return "super" in read(statement)


def set_up(program: Program) -> int:
    """What a constructor does stands in a method that it calls."""
    count = 0
    for owner, method in _constructors(program):
        first = behind_docstring(method.body)
        while first < len(method.body) and _is_super(method.body[first]):
            first += 1
        body, args = method.body[first:], method.args
        if not body or any(map(_is_super, body)) or args.posonlyargs or args.vararg or args.kwarg:
            continue
        if has(method.body[:first], ast.Assign) or has(body, ast.Nonlocal, ast.Global):
            continue
        name = program.fresh("_set_up")
        given = [one.arg for one in (*args.args, *args.kwonlyargs)][1:]
        call = f"self.NAME({', '.join(given)})".replace("NAME", name)
        (made,) = written(f"def NAME(self, {', '.join(given)}):\n    BODY", method, NAME=name, BODY=body)
        if parameters(method)[0] != "self":
            continue
        method.body[first:] = written(call, body[0])
        owner.body.insert(owner.body.index(method) + 1, made)
        count += 1
    return count


def base_class(program: Program) -> int:
    """The constructor stands in a class of its own, from which the class inherits."""
    count = 0
    for owner, method in list(_constructors(program)):
        if (
            "super" in read(method)
            or "__class__" in read(method)
            or owner.decorator_list
            or owner not in program.tree.body
        ):
            continue
        private = [
            one.attr
            for one in ast.walk(owner)
            if isinstance(one, ast.Attribute) and one.attr.startswith("__")
        ]
        if any(not name.endswith("__") for name in private) or owner.keywords:
            continue
        name = program.fresh("Base")
        names = {one.id for one in ast.walk(method) if isinstance(one, ast.Name)}
        if names & {n for one in owner.body if isinstance(one, ast.Assign) for n in bound(one)}:
            continue
        (base,) = written("class NAME:\n    BODY", owner, BODY=[method])
        assert isinstance(base, ast.ClassDef)
        base.name, base.bases = name, owner.bases
        owner.bases = [ast.Name(name, ast.Load())]
        owner.body.remove(method)
        owner.body = owner.body or written("pass", owner)
        program.tree.body.insert(program.tree.body.index(owner), base)
        count += 1
    return count


class _Held(ast.NodeTransformer):
    """``self.x`` as ``self.state.x``."""

    def __init__(self, names: set[str], state: str) -> None:
        self.names, self.state = names, state

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self.names:
            node.value = ast.Attribute(node.value, self.state, ast.Load())
        return node


class _Keyed(_Held):
    """``self.x`` as ``self.state["x"]``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self.names:
            holder = ast.Attribute(node.value, self.state, ast.Load())
            return ast.Subscript(holder, ast.Constant(node.attr), node.ctx)
        return node


def _own_attributes(program: Program, owner: ast.ClassDef, method: ast.FunctionDef) -> set[str]:
    """Attributes that the constructor makes, and only ``self`` in this class has."""
    if owner.bases or owner.decorator_list or not method.args.args or method.args.args[0].arg != "self":
        return set()
    if any(
        isinstance(one, ast.ClassDef) and any(owner.name in read(b) for b in one.bases)
        for one in program.tree.body
    ):
        return set()
    if "getattr" in read(owner) or "setattr" in read(owner) or "vars" in read(owner):
        return set()
    own = Counter(
        one.attr
        for one in ast.walk(owner)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
    )
    every = Counter(one.attr for one in ast.walk(program.tree) if isinstance(one, ast.Attribute))
    made = {
        one.attr
        for one in ast.walk(method)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    }
    taken = {one.name for one in owner.body if isinstance(one, (Function, ast.ClassDef))}
    taken |= {n for one in owner.body if isinstance(one, (ast.Assign, ast.AnnAssign)) for n in bound(one)}
    taken |= {name for name in made if name.startswith("__")}
    return {name for name in made if own[name] == every[name] and name not in taken}


def _held(program: Program, change: type[_Held], empty: str) -> int:
    count = 0
    for owner, method in _constructors(program):
        if names := _own_attributes(program, owner, method):
            state = program.fresh("state")
            change(names, state).visit(owner)
            first = behind_docstring(method.body)
            method.body[first:first] = written(f"self.{state} = {empty}", method)
            count += len(names)
    return count


def held_by_object(program: Program) -> int:
    """``self.x`` as ``self.state.x``, of a ``SimpleNamespace``."""
    program.imports.add("import types")
    return _held(program, _Held, "types.SimpleNamespace()")


def held_by_dict(program: Program) -> int:
    """``self.x`` as ``self.state["x"]``."""
    return _held(program, _Keyed, "{}")


def held_by_own_class(program: Program) -> int:
    """``self.x`` as ``self.state.x``, of an empty class of the program."""
    name = program.fresh("State")
    count = _held(program, _Held, f"{name}()")
    if count:
        first = next(
            n for n, one in enumerate(program.tree.body) if isinstance(one, (Function, ast.ClassDef))
        )
        program.tree.body[first:first] = written("class NAME:\n    pass", program.tree.body[first])
        made = program.tree.body[first]
        assert isinstance(made, ast.ClassDef)
        made.name = name
    return count
