"""Code that is not running: who calls what in a module, and what is assigned where.

Only the text is looked at; what an expression stands for is found in ``interp/python/stream_sources.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Scope, Target
from streamlint.interp.state.values import ClassV, FuncV, ModuleV

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


# ----------------------------------------------------------------------------- calls


_CALLS: Kept[Span, list[tuple[Scope, ir.Call]]] = Kept()
_CALLS_ELSEWHERE: Kept[Span, list[tuple[Scope, ir.Call]]] = Kept()


def constructor_of(project: Project, cls: ir.ClassDecl) -> Target:
    """The class, with the constructor that its objects are made by: its own, or that of a base."""
    order, _ = project.ancestors(cls)
    return Target(next((one.methods["__init__"] for one in order if "__init__" in one.methods), None), cls)


def calls_of(project: Project, target: Target) -> list[tuple[Scope, ir.Call]]:
    """The calls of a function, or of a class, in its module."""
    module = project.module(target.module)
    if module is None:
        return []
    return project.once(_CALLS, target.span, lambda: list(calls_in(project, target, module)))


MOST_MODULES = Most(12, "callers in other modules")
"""Other modules that are searched for calls: what more of them call is passed all kinds of things."""


def calls_elsewhere(project: Project, target: Target) -> list[tuple[Scope, ir.Call]]:
    """The calls of a function or a class of a module in the other modules of the tree."""
    return project.once(_CALLS_ELSEWHERE, target.span, lambda: list(_elsewhere(project, target)))


def _elsewhere(project: Project, target: Target) -> Iterator[tuple[Scope, ir.Call]]:
    nested = "." in target.called.qualname
    others = [name for name in project.calling(target.name) if name != target.module and not nested]
    for name in others if project.budgets.allows(MOST_MODULES, len(others)) else ():
        module = project.module(name)
        if module is not None:
            yield from calls_in(project, target, module)


def calls_in(project: Project, target: Target, module: ir.Module) -> Iterator[tuple[Scope, ir.Call]]:
    """The same in a module, which may be another one."""
    called = frozenset({target.name, *_heirs(project, target, module)})
    for decl, cls in methods_and_functions(module):
        forwards = decl.name == "__init__" and "super" in decl.called and _is_first_base(project, target, cls)
        if (called.isdisjoint(decl.called) and not forwards) or decl is target.function:
            continue
        scope = scope_of(module, decl, cls)
        if scope is None:
            continue
        for node in ir.walk(scope.function.body, functions=True):
            if isinstance(node, ir.Call) and _is_call_of(project, node, target, scope, called):
                yield scope, node


def _heirs(project: Project, target: Target, module: ir.Module) -> Iterator[str]:
    """Classes of the module that are constructed by the constructor of the target."""
    for cls in module.classes.values() if target.cls is not None else ():
        order, _ = project.ancestors(cls)
        maker = constructor_of(project, cls).function
        if target.cls in order and maker is not None and maker is target.function:
            yield cls.name


def _is_call_of(
    project: Project, call: ir.Call, target: Target, scope: Scope, called: frozenset[str]
) -> bool:
    match call.func:
        case ir.Name(id=name) if name in called:
            match project.member(scope.module.name, name):
                case ClassV(decl):
                    return target.cls is not None and decl.name in called
                case FuncV(function=function):
                    return target.cls is None and function is target.function
                case _:
                    return False
        case ir.Attr(value=ir.Name(id=owner), name=name) if name == target.name and isinstance(
            known := project.member(scope.module.name, owner), ModuleV
        ):
            # rings.push(x, side), after from package import rings
            match project.member(known.name, name):
                case ClassV(decl):
                    return decl is target.cls
                case FuncV(function=function):
                    return target.cls is None and function is target.function
                case _:
                    return False
        case ir.Attr(value=ir.Name(id=owner), name=name) if name == target.name and target.cls is None:
            # self.step(x, self.side), in another method of the class
            methods = scope.cls.methods if scope.cls is not None else {}
            return owner == scope.receiver and methods.get(name) is target.function
        case ir.Attr(value=ir.Call(func=ir.Name(id="super")), name="__init__") if scope.cls is not None:
            # super().__init__(config, side), in a class derived from the target
            return scope.function.name == "__init__" and _is_first_base(project, target, scope.cls)
        case _:
            return False


def _is_first_base(project: Project, target: Target, cls: ir.ClassDecl | None) -> bool:
    """Whether ``super()`` in a class stands for the class of the target."""
    # Who asks for bases has the modules indexed in which they are.
    return cls is not None and target.cls is not None and project.ancestors(cls)[0][1:2] == [target.cls]


def argument_of(call: ir.Call, param: str, positional: Iterable[str]) -> ir.Expr | None:
    """What a call passes for a parameter; ``positional`` are those of arguments without a keyword."""
    for argument in call.args:
        if argument.keyword == param:
            return argument.value
    for name, argument in zip(positional, call.args, strict=False):
        if argument.star or argument.keyword is not None:
            return None
        if name == param:
            return argument.value
    return None


# ----------------------------------------------------------------------------- assignments


def put_on_others(project: Project, module: ir.Module, name: str) -> Iterator[tuple[Scope, ir.Expr]]:
    """What functions of a module assign to an attribute of something that is not their own object."""
    for decl, cls in methods_and_functions(module):
        if name not in decl.stored or not touching.touches(project, decl):
            continue
        scope = scope_of(module, decl, cls)
        if scope is None:
            continue
        for node in ir.walk(scope.function.body, functions=True):
            match node:
                case ir.Assign(targets=(ir.Attr(value=ir.Name(id=owner), name=attribute),), value=value) if (
                    attribute == name and owner != scope.receiver
                ):
                    yield scope, value
                case _:
                    pass


def local_names(function: ir.Function) -> Iterator[str]:
    for param in function.params:
        yield param.name
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=targets):
                for target in targets:
                    for part in ir.walk(target):
                        if isinstance(part, ir.Name):
                            yield part.id
            case ir.Bind(name=name):
                yield name
            case _:
                pass


_PUT_INTO: Kept[ir.ClassDecl | ir.Module, dict[str, list[tuple[Scope, ir.Expr]]]] = Kept()


def put_into(project: Project, owner: ir.ClassDecl | ir.Module) -> dict[str, list[tuple[Scope, ir.Expr]]]:
    """What code of a class or a module puts into containers that it holds, by their names."""
    return project.once(_PUT_INTO, owner, lambda: _put_into(project, owner))


def _put_into(project: Project, owner: ir.ClassDecl | ir.Module) -> dict[str, list[tuple[Scope, ir.Expr]]]:
    module = owner if isinstance(owner, ir.Module) else project.module(owner.module)
    found: dict[str, list[tuple[Scope, ir.Expr]]] = {}
    for scope in _scopes(project, module, owner) if module is not None else ():
        for name, e in _puts(scope):
            found.setdefault(name, []).append((scope, e))
    return found


def _scopes(project: Project, module: ir.Module, owner: ir.ClassDecl | ir.Module) -> Iterator[Scope]:
    """The code that may put streams or events into something that the owner holds."""
    for decl, cls in methods_and_functions(module):
        if (cls is owner or owner is module) and (
            touching.makes_streams(decl.used) or touching.touches(project, decl)
        ):
            scope = scope_of(module, decl, cls if cls is owner else None)
            if scope is not None:
                yield scope


def _puts(scope: Scope) -> Iterator[tuple[str, ir.Expr]]:
    for node in ir.walk(scope.function.body, functions=True):
        match node:
            case ir.Assign(targets=(ir.Index(value=container, index=index),), value=value) if not isinstance(
                index, ir.Const
            ):
                name = _held_by(scope, container)
            case ir.Call(func=ir.Attr(value=container, name=method), args=(ir.Arg(value=value), *_)) if (
                method in ir.PUTS
            ):
                name = _held_by(scope, container)
            case _:
                continue
        if name is not None:
            yield name, value


def _held_by(scope: Scope, container: ir.Expr) -> str | None:
    """The attribute of the object, or the variable of the module."""
    match container:
        case ir.Attr(value=ir.Name(id=owner), name=name) if scope.cls is not None and owner == scope.receiver:
            return name
        case ir.Name(id=name) if scope.cls is None and name in scope.module.assigned:
            return name
        case _:
            return None


def class_named_by(project: Project, module: str, annotation: ir.Expr | None) -> ir.ClassDecl | None:
    match annotation:
        case ir.Name(id=name):
            return project.class_named(module, name)
        case ir.Const(value=str() as text):
            return project.class_named(module, text)
        case ir.Attr(value=ir.Name(id=owner), name=name):
            return project.class_named(module, f"{owner}.{name}")
        case (
            ir.Index(value=ir.Name(id="Optional"), index=inner)
            | ir.Binary(op="|", left=inner, right=ir.Const(value=None))
        ):
            return class_named_by(project, module, inner)
        case _:
            return None


# ----------------------------------------------------------------------------- code


def target_of(scope: Scope) -> Target | None:
    """What outside code calls so that the function of a scope gets its arguments."""
    if scope.cls is None:
        decl = scope.module.functions.get(scope.function.name)
        return Target(decl) if decl is not None else None
    decl = scope.cls.methods.get(scope.function.name)
    if decl is None:
        return None
    return Target(decl, scope.cls if decl.name == "__init__" else None)


def scope_of(module: ir.Module, decl: ir.FunctionDecl, cls: ir.ClassDecl | None) -> Scope | None:
    """None if the function cannot be read, which is reported where it is run."""
    function = ir.code_of(decl)
    return Scope(module, function, cls) if function is not None else None


def methods_and_functions(module: ir.Module) -> Iterator[tuple[ir.FunctionDecl, ir.ClassDecl | None]]:
    """All functions of a module, those of classes with their class."""
    for decl in module.functions.values():
        yield decl, None
    for cls in ir.all_classes(module):
        for decl in cls.methods.values():
            yield decl, cls


def assigned(owner: ir.Module | ir.ClassDecl, name: str) -> ir.Expr | None:
    """What the first ``name = ...`` or ``name, other = ...`` in the body of a module or class assigns.

    None where there is no such statement, or it cannot be read.
    """
    for statement in owner.load_body():
        if isinstance(statement, ir.Assign):
            for target in statement.targets:
                match target:
                    case ir.Name(id=bound) if bound == name:
                        return statement.value
                    case ir.Seq(items=items) if name in (names := [_plain_name(item) for item in items]):
                        place = ir.Const(statement.span, names.index(name))
                        return ir.Index(statement.span, statement.value, place)
                    case _:
                        pass
    return None


def _plain_name(target: ir.Expr) -> str | None:
    return target.id if isinstance(target, ir.Name) else None
