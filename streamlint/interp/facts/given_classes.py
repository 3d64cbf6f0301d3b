"""Which class of the tree an object has that is passed to a function or a constructor.

``def report(meter: Meter)`` says so, and so does ``Player(Mixer())`` wherever it stands in the tree. Where
nothing does, the only class that has all members with which code uses the object is a guess.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from io import BytesIO
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import classes, decorators, own_makers, scopes, touching, writes
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Target
from streamlint.interp.state.values import ClassV, FuncV
from streamlint.models import host, members, torch
from streamlint.trace import MonitorKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span

MOST_STEPS = Most(6, "the class of what is passed")
"""Names, attributes and parameters that are followed from an argument to the call that makes it."""
FEWEST_WORDS = 2
"""Members that code uses, and arguments that it passes to one, before they tell the class of an object."""
FEWEST_ATTRIBUTES = 3
"""The same where it calls none of them; of a class that works with streams one member less is enough."""
_ANYBODYS = frozenset(
    name
    for one in (list, dict, set, str, bytes, int, deque, Queue, Thread, Future, BytesIO)
    for name in dir(one)
)
"""What Python's own objects have as well."""


@frozen()
class Given:
    """The class of what is passed for a parameter."""

    cls: ir.ClassDecl
    shown: bool
    """Whether an annotation or a caller says so; else it is the only class with the members that are used."""
    orders: bool
    """Whether it works with streams itself. What others do is of use where they do it on a second stream."""


def of_parameter(project: Project, target: Target, param: str) -> Given | None:
    """The class of what callers pass, if it is one of the tree."""
    return kept(
        project,
        (target.span, param),
        lambda: _shown(project, target, param, MOST_STEPS.number),
        lambda: _guessed_parameter(project, target, param),
    )


def of_field(project: Project, cls: ir.ClassDecl, name: str) -> ir.ClassDecl | None:
    """The class of what a field holds, as its declaration says: ``config: Config``."""
    said = (
        (owner, annotation)
        for owner in project.ancestors(cls)[0]
        for annotation in classes.declared(owner).get(name, ())
    )
    return next((scopes.class_named_by(project, owner.module, one) for owner, one in said), None)


def of_name(project: Project, scope: Scope, name: str) -> Given | None:
    """The class of what a name of a function stands for: ``for handle in handles: handle.unshard(side)``."""
    return kept(
        project,
        (scope.function.span, name),
        lambda: None,
        lambda: _guessed(project, scope, name),
    )


_CALLED_OF: Kept[tuple[Span, str], frozenset[str]] = Kept()


def called_of(project: Project, target: Target, param: str) -> frozenset[str]:
    """The methods of a parameter that the text of a function calls: ``runner.step(rows)``."""

    def find() -> frozenset[str]:
        function = ir.code_of(target.function) if target.function is not None else None
        return frozenset(
            name
            for node in (ir.walk(function.body, functions=True) if function is not None else ())
            for name in _method_called(node, param)
        )

    return project.once(_CALLED_OF, (target.span, param), find)


def _method_called(node: object, param: str) -> Iterator[str]:
    match node:
        case ir.Call(func=ir.Attr(value=ir.Name(id=owner), name=name)) if owner == param:
            yield name
        case _:
            pass


_GIVEN: Kept[tuple[Span, str], Given | None] = Kept()


def kept(
    project: Project,
    place: tuple[Span, str],
    show: Callable[[], ir.ClassDecl | None],
    guess: Callable[[], ir.ClassDecl | None],
) -> Given | None:
    given = project.kept(_GIVEN)
    if place not in given:
        given[place] = None  # as long as it is looked for: functions may call each other in a circle
        shown = show()
        found = shown or guess()
        if found is not None and not _has_no_objects(project, found):
            given[place] = Given(found, shown is not None, _works_with_streams(project, found))
    return given[place]


def _has_no_objects(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether a method is abstract: objects are of classes derived from it, which may do anything."""
    order, _ = project.ancestors(cls)
    methods = {decl.name: decl for one in reversed(order) for decl in one.methods.values()}
    return any(map(decorators.is_abstract, methods.values()))


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


def only(classes: set[ir.ClassDecl | None]) -> ir.ClassDecl | None:
    known = classes - {None}
    return known.pop() if len(known) == 1 else None


def _passed(project: Project, target: Target, param: str, steps: int) -> ir.ClassDecl | None:
    """The class that all calls which show one agree on."""
    return only({of_expression(project, scope, e, steps) for scope, e in arguments(project, target, param)})


def arguments(project: Project, target: Target, param: str) -> Iterator[tuple[Scope, ir.Expr]]:
    """What calls pass for a parameter."""
    for scope, call in _calls(project, target):
        if (e := scopes.argument_of(call, param, target.positional())) is not None:
            yield scope, e


def _calls(project: Project, target: Target) -> Iterator[tuple[Scope, ir.Call]]:
    """The calls in the module of a function or class, or else those in other modules."""
    return iter(scopes.calls_of(project, target) or scopes.calls_elsewhere(project, target))


def of_expression(project: Project, scope: Scope, e: ir.Expr, steps: int) -> ir.ClassDecl | None:
    """The class of what an expression stands for: a call of the class, or what holds the object it made."""
    if steps <= 0:
        project.budgets.cut(MOST_STEPS)
        return None
    match e:
        case ir.Call(func=ir.Name() | ir.Attr() as func):
            return _called_class(project, scope.module, func)
        case ir.Name(id=name):
            found = _one_class(project, scope, writes.before(project, scope, e), steps)
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
        if name in decl.stored and (inside := scopes.scope_of(scope.module, decl, cls)) is not None
        for e in writes.on_receiver(project, inside, name)
    )
    return only({of_expression(project, inside, e, steps - 1) for inside, e in held})


def _one_class(project: Project, scope: Scope, held: Iterable[ir.Expr], steps: int) -> ir.ClassDecl | None:
    return only({of_expression(project, scope, e, steps - 1) for e in held})


# ----------------------------------------------------------------------------- what use suggests


def _guessed_parameter(project: Project, target: Target, param: str) -> ir.ClassDecl | None:
    module, decl = project.module(target.module), target.function
    scope = scopes.scope_of(module, decl, target.cls) if module is not None and decl is not None else None
    return _guessed(project, scope, param) if scope is not None else None


def _guessed(project: Project, scope: Scope, name: str) -> ir.ClassDecl | None:
    """The only class of the module, or imported by it, that has all members with which the code uses it.

    ``loader.output.get()`` are two words: ``output`` is a queue of the class. ``self.encoder(points, rows)``
    calls an object: of the classes of the module that can be called so, those that others make as parts of
    theirs are left out.
    """
    used = list(_members(project, scope, name, set()))
    calls = {one.name: one.call for one in used if one.call is not None}
    names = {one.name for one in used}
    queues = {one.name for one in used if one.of_queue}
    if all(_is_anybodys(member) for member in names):
        return None
    fitting = [
        one
        for one in _classes_in_sight(project, scope.module)
        if one is not scope.cls
        and _is_enough(project, one, used)
        and all(_takes(project, one, call, member) for member, call in calls.items())
        and _has_members(project, one, names)
        and all(own_makers.holds_queue(project, one, member) for member in queues)
    ]
    if CALL in names:
        said = next((param.annotation for param in scope.function.params if param.name == name), None)
        fitting = [one for one in fitting if not any(_makes(other, one) for other in fitting)]
        fitting = [one for one in fitting if said is None or _may_be_said(project, one, said)]
        fitting = [one for one in fitting if _tells(project, one, calls[CALL])]
    return fitting[0] if len(fitting) == 1 else None


CALL = "__call__"
"""The member by which an object is called; of a module that is its ``forward``."""


def _makes(cls: ir.ClassDecl, part: ir.ClassDecl) -> bool:
    """Whether a class names another one: ``self.splat = Splat(resolution)``."""
    return cls is not part and any(part.name in decl.names for decl in cls.methods.values())


def _tells(project: Project, cls: ir.ClassDecl, call: ir.Call) -> bool:
    """Whether the number of arguments tells something: ``model(*inputs)`` may call anything.

    So may ``f(x)``, if it is no module that is called.
    """
    given = sum(not argument.star for argument in call.args)
    if classes.is_module(project, cls):
        return given == len(call.args)
    decl = next(one.methods[CALL] for one in project.ancestors(cls)[0] if CALL in one.methods)
    return given >= FEWEST_WORDS and all(param.kind != "*" for param in Target(decl).params())


def _may_be_said(project: Project, cls: ir.ClassDecl, annotation: ir.Expr) -> bool:
    """Whether an object of a class is what an annotation of no class of the tree says: ``net: nn.Module``."""
    return ir.dotted(annotation).rpartition(".")[2] == "Module" and classes.is_module(project, cls)


def _called(project: Project, cls: ir.ClassDecl, member: str) -> str:
    """The method that runs: what calls a module runs its ``forward``."""
    is_forward = member == CALL and not any(CALL in one.methods for one in project.ancestors(cls)[0])
    return "forward" if is_forward and classes.is_module(project, cls) else member


def _is_enough(project: Project, cls: ir.ClassDecl, used: list[_Use]) -> bool:
    """Whether so many members, with those that are called and methods of a class, tell what it is."""
    names, own = {one.name for one in used}, _methods(project, cls)
    calls = {one.name: one.call for one in used if one.call is not None and one.name in own}
    queues = {one.name for one in used if one.of_queue}
    if not calls and not queues:
        return len(names) >= FEWEST_ATTRIBUTES - _works_with_streams(project, cls)
    most = max((len(call.args) for call in calls.values()), default=len(queues))
    return len(names) + most >= FEWEST_WORDS


def _is_anybodys(method: str) -> bool:
    return method in _ANYBODYS or members.is_tensor_method(method)


def _takes(project: Project, cls: ir.ClassDecl, call: ir.Call, name: str) -> bool:
    """Whether a method of a class can be called like this; ``self.module(x)`` may call what it holds."""
    name = _called(project, cls, name)
    decl = next((one.methods[name] for one in project.ancestors(cls)[0] if name in one.methods), None)
    if decl is None:
        return name != CALL
    params = Target(decl).params()
    if not params:
        return False
    if any(argument.star for argument in call.args):
        return True
    bound = 0 if decorators.is_static(decl) else 1
    positional = [param for param in params if param.kind == "positional"][bound:]
    given = sum(argument.keyword is None for argument in call.args)
    named = {argument.keyword for argument in call.args if argument.keyword is not None}
    more = {param.kind for param in params}
    missing = [param.name for param in positional[given:] if param.default is None]
    return (
        (given <= len(positional) or "*" in more)
        and named.issuperset(missing)
        and ("**" in more or named <= {param.name for param in params})
    )


@frozen()
class _Use:
    """A member that code uses of an object."""

    name: str
    call: ir.Call | None
    """How it is called."""
    of_queue: bool
    """Whether something is put into it or taken out, as only a queue has it: ``loader.output.get()``."""


_OF_QUEUES = host.SIGNALS[MonitorKind.QUEUE] | host.WAITS[MonitorKind.QUEUE]


def _members(project: Project, scope: Scope, param: str, seen: set[tuple[Span, str]]) -> Iterator[_Use]:
    """Members that code uses of a parameter, or of the attribute that keeps it, and how it calls them.

    So do the functions that it is passed on to, ``reduce(group, parts)``, which uses ``group.streams``, and
    the classes that are made with it: ``Reducer(group)``, whose methods use ``self.group.streams``.
    """
    if (scope.function.span, param) in seen:
        return
    seen.add((scope.function.span, param))
    kept = {
        target.name
        for target, value in _assignments(scope.function.body)
        if isinstance(held := _moved(value), ir.Name)
        and held.id == param
        and isinstance(target, ir.Attr)
        and isinstance(target.value, ir.Name)
        and target.value.id == scope.receiver
    }
    inside = [scope]
    if kept and scope.cls is not None:
        using = (decl for decl in scope.cls.methods.values() if not kept.isdisjoint(decl.members))
        others = (scopes.scope_of(scope.module, decl, scope.cls) for decl in using)
        inside += [other for other in others if other is not None]
    for one in inside:
        nodes = list(ir.walk(one.function.body, functions=True))
        called = {id(node.func): node for node in nodes if isinstance(node, ir.Call)}
        of_queues = {
            id(call.func.value)
            for call in called.values()
            if isinstance(call.func, ir.Attr) and call.func.name in _OF_QUEUES
        }
        for node in nodes:
            match node:
                case ir.Call(func=ir.Name(id=name)) if one is scope and name == param:
                    yield _Use(CALL, node, of_queue=False)
                    continue
                case ir.Call(func=ir.Attr(value=ir.Name(id=owner), name=name)) if (
                    owner == one.receiver and name in kept
                ):
                    yield _Use(CALL, node, of_queue=False)
                    continue
                case ir.Attr(value=ir.Name(id=name)) if one is scope and name == param:
                    pass
                case ir.Attr(value=ir.Attr(value=ir.Name(id=owner), name=name)) if (
                    owner == one.receiver and name in kept
                ):
                    pass
                case ir.Call() if one is scope:
                    for taker, taken in _takers(project, scope, node, param):
                        yield from _members(project, taker, taken, seen)
                    continue
                case _:
                    continue
            yield _Use(node.name, called.get(id(node)), id(node) in of_queues)


def _moved(e: ir.Expr) -> ir.Expr:
    """``model`` of ``model.cuda().eval()``, which is the same module."""
    match e:
        case ir.Call(func=ir.Attr(value=inner, name=name)) if name in torch.MODULE_RETURNS_SELF:
            return _moved(inner)
        case _:
            return e


def _takers(project: Project, scope: Scope, call: ir.Call, name: str) -> Iterator[tuple[Scope, str]]:
    """The function of the module or method of the class that gets a name, and for which parameter."""
    taker = _taker(project, scope, call.func)
    if taker is None or taker.function is None or taker.function.module != scope.module.name:
        return
    positional = taker.positional()
    for param in taker.params():
        match scopes.argument_of(call, param.name, positional):
            case ir.Name(id=given) if given == name:
                is_function = taker.function is scope.module.functions.get(taker.name)
                cls = None if is_function else taker.cls or scope.cls
                if (inside := scopes.scope_of(scope.module, taker.function, cls)) is not None:
                    yield inside, param.name
            case _:
                pass


def _taker(project: Project, scope: Scope, func: ir.Expr) -> Target | None:
    """``reduce(group)`` and ``Reducer(group)`` of the module, ``self._attach(group)`` of the own class."""
    match func:
        case ir.Name(id=name):
            called = project.member(scope.module.name, name)
            if isinstance(called, ClassV):
                return Target(called.decl.methods.get("__init__"), called.decl)
            found = called.function if isinstance(called, FuncV) else None
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls is not None:
            found = scope.cls.methods.get(name)
            if found is not None and decorators.is_static(found):
                found = None
        case _:
            return None
    return Target(found) if isinstance(found, ir.FunctionDecl) else None


def _assignments(body: object) -> Iterator[tuple[ir.Expr, ir.Expr]]:
    """What is assigned to what: ``self.table, self.over = table, over`` is two of them."""
    for node in ir.walk(body, functions=True):
        match node:
            case ir.Assign(targets=(ir.Seq(items=targets),), value=ir.Seq(items=values)):
                yield from zip(targets, values, strict=False)
            case ir.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case _:
                pass


def _classes_in_sight(project: Project, module: ir.Module) -> Iterator[ir.ClassDecl]:
    yield from ir.all_classes(module)
    for imported in module.imports:
        if imported.attribute is not None and project.module(imported.module) is not None:
            found = project.member(module.name, imported.name)
            if isinstance(found, ClassV):
                yield found.decl


def _methods(project: Project, cls: ir.ClassDecl) -> set[str]:
    own = {name for one in project.ancestors(cls)[0] for name in one.methods}
    return own | {CALL} if "forward" in own and classes.is_module(project, cls) else own


def _has_members(project: Project, cls: ir.ClassDecl, names: set[str]) -> bool:
    """Whether an object of a class has all these members. Bodies are read only where it may have them."""
    missing = names - _methods(project, cls)
    if classes.is_module(project, cls):
        missing -= torch.MODULE_METHODS | torch.MODULE_RETURNS_SELF | torch.GIVES_OF_MODULE
    own = [(one, decl) for one in project.ancestors(cls)[0] for decl in one.methods.values()]
    if not missing <= frozenset().union(*(decl.members for _, decl in own)):
        return False
    return missing <= {
        name
        for one, decl in own
        if not missing.isdisjoint(decl.members)
        for name in _attributes(project, one, decl)
    }


def _attributes(project: Project, cls: ir.ClassDecl, decl: ir.FunctionDecl) -> Iterator[str]:
    """Names of attributes to which a method assigns something."""
    module = project.module(cls.module)
    scope = scopes.scope_of(module, decl, cls) if module is not None else None
    for node in ir.walk(scope.function.body, functions=True) if scope is not None else ():
        if isinstance(node, ir.Assign):
            yield from (part.name for part in ir.walk(node.targets) if isinstance(part, ir.Attr))
