"""Which class of the tree an object has that is passed to a function or a constructor.

``def report(meter: Meter)`` says so, and so does ``Player(Mixer())`` wherever it stands in the tree. Where
nothing does, the only class that has all members with which code uses the object is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import scopes, touching, writes
from streamlint.interp.facts.relevance import all_classes
from streamlint.interp.state.values import ClassV
from streamlint.models import members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.facts.scopes import Scope, Target
    from streamlint.interp.state.project import Project

MOST_STEPS = 6
"""Names, attributes and parameters that are followed from an argument to the call that makes it."""
FEWEST_MEMBERS = 2
"""Members that code has to use before they tell the class of an object."""


@dataclass(frozen=True, slots=True)
class Given:
    """The class of what is passed for a parameter."""

    cls: ir.ClassDecl
    shown: bool
    """Whether an annotation or a caller says so; else it is the only class with the members that are used."""
    orders: bool
    """Whether it works with streams itself. What others do is of use where they do it on a second stream."""


def of_parameter(project: Project, target: Target, param: str) -> Given | None:
    """The class of what callers pass, if it is one of the tree."""
    place = (target.span, param)
    if place not in project.given:
        project.given[place] = None
        shown = _shown(project, target, param, MOST_STEPS)
        found = shown or _guessed(project, target, param)
        if found is not None:
            orders = _works_with_streams(project, found)
            project.given[place] = Given(found, shown is not None, orders)
    return project.given[place]


def _works_with_streams(project: Project, cls: ir.ClassDecl) -> bool:
    order, _ = project.ancestors(cls)
    return any(touching.touches(project, decl) for one in order for decl in one.methods.values())


# ----------------------------------------------------------------------------- what is shown


def _shown(project: Project, target: Target, param: str, steps: int) -> ir.ClassDecl | None:
    for known in target.params():
        if known.name == param:
            annotated = scopes.class_named_by(project, target.module, known.annotation)
            if annotated is not None or known.annotation is not None:
                return annotated
    return _passed(project, target, param, steps)


def _passed(project: Project, target: Target, param: str, steps: int) -> ir.ClassDecl | None:
    """The class that all calls which show one agree on."""
    passed = {
        found
        for scope, call in _calls(project, target)
        if (e := scopes.argument_of(call, param, target.positional())) is not None
        and (found := _of_expression(project, scope, e, steps)) is not None
    }
    return passed.pop() if len(passed) == 1 else None


def _calls(project: Project, target: Target) -> Iterator[tuple[Scope, ir.Call]]:
    """The calls in the module of a function or class, or else those in other modules."""
    return iter(scopes.calls_of(project, target) or scopes.calls_elsewhere(project, target))


def _of_expression(project: Project, scope: Scope, e: ir.Expr, steps: int) -> ir.ClassDecl | None:
    """The class of what an expression stands for: a call of the class, or what holds the object it made."""
    if steps <= 0:
        return None
    match e:
        case ir.Call(func=ir.Name() | ir.Attr() as func):
            return _called_class(project, scope.module, func)
        case ir.Name(id=name):
            found = _one_class(project, scope, writes.to_name(project, scope, name), steps)
            target = scopes.target_of(scope)
            if found is None and target is not None and any(p.name == name for p in scope.function.params):
                found = _shown(project, target, name, steps - 1)
            return found
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls is not None:
            return _of_attribute(project, scope, scope.cls, name, steps)
        case _:
            return None


def _called_class(project: Project, module: ir.Module, func: ir.Name | ir.Attr) -> ir.ClassDecl | None:
    match func:
        case ir.Name(id=name):
            return project.class_named(module.name, name)
        case ir.Attr(value=ir.Name(id=owner), name=name):
            return project.class_named(module.name, f"{owner}.{name}")
        case _:
            return None


def _of_attribute(
    project: Project, scope: Scope, cls: ir.ClassDecl, name: str, steps: int
) -> ir.ClassDecl | None:
    held = (
        (inside, e)
        for decl in cls.methods.values()
        if name in decl.names and (inside := scopes.scope_of(scope.module, decl, cls)) is not None
        for e in writes.on_receiver(project, inside, name)
    )
    classes = {
        found for inside, e in held if (found := _of_expression(project, inside, e, steps - 1)) is not None
    }
    return classes.pop() if len(classes) == 1 else None


def _one_class(project: Project, scope: Scope, held: Iterable[ir.Expr], steps: int) -> ir.ClassDecl | None:
    classes = {found for e in held if (found := _of_expression(project, scope, e, steps - 1)) is not None}
    return classes.pop() if len(classes) == 1 else None


# ----------------------------------------------------------------------------- what use suggests


def _guessed(project: Project, target: Target, param: str) -> ir.ClassDecl | None:
    """The only class of the module, or imported by it, that has all members with which the code uses it."""
    module = project.module(target.module)
    decl = target.function
    scope = scopes.scope_of(module, decl, target.cls) if module is not None and decl is not None else None
    if scope is None:
        return None
    used = set(_members(scope, param))
    calls = {name for name, called in used if called}
    names = {name for name, _ in used}
    if len(names) < FEWEST_MEMBERS or not calls or all(members.is_tensor_method(name) for name in calls):
        return None
    fitting = [
        cls
        for cls in _classes_in_sight(project, scope.module)
        if cls is not target.cls
        and calls <= _methods(project, cls)
        and names <= _methods(project, cls) | _attributes(project, cls)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _members(scope: Scope, param: str) -> Iterator[tuple[str, bool]]:
    """Members that code uses of a parameter, or of the attribute that keeps it, and whether it calls them."""
    kept = {
        target.name
        for node in scopes.parts(scope.function.body)
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Name) and node.value.id == param
        for target in node.targets
        if isinstance(target, ir.Attr)
        and isinstance(target.value, ir.Name)
        and target.value.id == scope.receiver
    }
    inside = [scope]
    if kept and scope.cls is not None:
        others = (scopes.scope_of(scope.module, decl, scope.cls) for decl in scope.cls.methods.values())
        inside += [other for other in others if other is not None]
    for one in inside:
        nodes = list(scopes.parts(one.function.body))
        called = {id(node.func) for node in nodes if isinstance(node, ir.Call)}
        for node in nodes:
            match node:
                case ir.Attr(value=ir.Name(id=name)) if one is scope and name == param:
                    yield node.name, id(node) in called
                case ir.Attr(value=ir.Attr(value=ir.Name(id=owner), name=name)) if (
                    owner == one.receiver and name in kept
                ):
                    yield node.name, id(node) in called
                case _:
                    pass


def _classes_in_sight(project: Project, module: ir.Module) -> Iterator[ir.ClassDecl]:
    yield from all_classes(module)
    for imported in module.imports:
        if imported.attribute is not None and project.module(imported.module) is not None:
            found = project.member(module.name, imported.name)
            if isinstance(found, ClassV):
                yield found.decl


def _methods(project: Project, cls: ir.ClassDecl) -> set[str]:
    return {name for one in project.ancestors(cls)[0] for name in one.methods}


def _attributes(project: Project, cls: ir.ClassDecl) -> set[str]:
    """Names of attributes to which methods of a class assign something."""
    found: set[str] = set()
    for one in project.ancestors(cls)[0]:
        module = project.module(one.module)
        inside = (scopes.scope_of(module, decl, one) for decl in one.methods.values()) if module else ()
        found |= {
            part.name
            for scope in inside
            if scope is not None
            for node in scopes.parts(scope.function.body)
            if isinstance(node, ir.Assign)
            for part in ir.walk(node.targets)
            if isinstance(part, ir.Attr)
        }
    return found
