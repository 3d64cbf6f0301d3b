"""Attributes that are ``None`` until the application is set up, as it is by then.

``_CONTEXT = Context()``: ``install(args)`` sets ``self.bags``, without which ``bag(name)`` raises an error.
And ``self.store_lane = None``, of which no other method is: who makes the model sets it, or
``self.store_lane.wait_stream(...)`` would raise one. And flags of settings, ``overlap: bool | None = None``,
that a function reads from what it is given: ``settings().moe.overlap = args.overlap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, scopes, writes
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import HeapV, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span

_DEEPEST = 3
"""Objects that hold each other, from the variable of a module to a flag: ``_CONTEXT.flags.moe``."""

_USED_AS_SET: Kept[ir.ClassDecl, frozenset[str]] = Kept()
_CALLED: Kept[Span, frozenset[str]] = Kept()
"""What functions call, by their places."""


def by_others(m: Machine, cls: ir.ClassDecl, name: str) -> bool:
    """Whether code out of sight must have set what the constructor of an object leaves ``None``.

    No method sets it, and some method uses it without asking whether it is there.
    """
    return not _setters(m, cls, name) and any(name in _used(m, one) for one in m.project.ancestors(cls)[0])


def by_methods(m: Machine, cls: ir.ClassDecl, name: str) -> bool:
    """Whether a method other than the constructor sets an attribute."""
    return bool(_setters(m, cls, name))


def _setters(m: Machine, cls: ir.ClassDecl, name: str) -> set[str]:
    """The methods that assign an attribute, other than constructors."""
    methods = (decl for one in m.project.ancestors(cls)[0] for decl in one.methods.values())
    return {decl.name for decl in methods if name in decl.stored and decl.name != "__init__"}


def _used(m: Machine, cls: ir.ClassDecl) -> frozenset[str]:
    return m.project.once(_USED_AS_SET, cls, lambda: frozenset(_used_as_set(cls)))


def _used_as_set(cls: ir.ClassDecl) -> Iterator[str]:
    """Attributes of the object of which a method uses a member, and that no test of it mentions.

    And those that it asserts to be there: ``assert self.group is not None`` asks nothing.
    """
    for decl in cls.methods.values():
        function = ir.code_of(decl) if decl.name != "__init__" else None
        if function is None or not function.params:
            continue
        receiver = function.params[0].name
        nodes = list(ir.walk(function.body))
        demands = [node for node in nodes if isinstance(node, ir.Assert)]
        asserted = {name for one in demands if (name := _demanded(one.test, receiver))}
        tests = [node.test for node in nodes if isinstance(node, (ir.If, ir.While, ir.Choice))]
        tests += [one.test for one in demands if not _demanded(one.test, receiver)]
        asked = {name for test in tests for node in ir.walk(test) if (name := _own(node, receiver))}
        yield from asserted - asked
        yield from (
            name
            for node in nodes
            if isinstance(node, ir.Attr) and (name := _own(node.value, receiver)) and name not in asked
        )


def _demanded(test: ir.Expr, receiver: str) -> str:
    """``group`` of ``assert self.group is not None``."""
    match test:
        case ir.Compare(op="is not", left=left, right=ir.Const(value=None)):
            return _own(left, receiver)
        case _:
            return _own(test, receiver)


def _own(node: object, receiver: str) -> str:
    match node:
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == receiver:
            return name
        case _:
            return ""


def is_set(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> bool:
    """Whether other code has set an attribute that the constructor of a module's object leaves ``None``.

    Not where what is running sets it itself, or calls what does: ``if self.page is None: self._allocate()``.
    """
    if made not in m.globals.values():
        return False
    setters = _setters(m, cls, name)
    return bool(setters) and all(
        frame.code is None
        or (
            frame.code.qualname.rpartition(".")[2] not in setters
            and setters.isdisjoint(_called(m, frame.code))
        )
        for frame in m.frames
    )


_FLAGS: Kept[tuple[ir.ClassDecl, str], bool] = Kept()
_SET_UP: Kept[tuple[ir.ClassDecl, str, str], frozenset[Span]] = Kept()


def is_set_up(m: Machine, made: HeapV, cls: ir.ClassDecl, name: str) -> bool:
    """Whether a function has given a flag of a module's object a value by now that nobody in sight knows.

    Who asks for it may fall back where nobody has (``if moe.overlap is None: moe.overlap = False``).
    """
    if not m.project.once(_FLAGS, (cls, name), lambda: _is_flag(m.project, cls, name)):
        return False
    held_as = _held_as(m, made)
    if not held_as:
        return False
    setters = m.project.once(
        _SET_UP, (cls, name, held_as), lambda: frozenset(_giving(m.project, held_as, name))
    )
    return bool(setters) and all(frame.code is None or frame.code.span not in setters for frame in m.frames)


def _is_flag(project: Project, cls: ir.ClassDecl, name: str) -> bool:
    """``overlap: bool | None``, ``Optional[bool]``"""
    for one in project.ancestors(cls)[0]:
        for annotation in classes.declared(one).get(name, ()):
            match annotation:
                case ir.Binary(op="|", left=ir.Name(id="bool"), right=ir.Const(value=None)):
                    return True
                case ir.Index(
                    value=ir.Name(id="Optional") | ir.Attr(name="Optional"), index=ir.Name(id="bool")
                ):
                    return True
                case _:
                    return False
    return False


def _held_as(m: Machine, made: HeapV) -> str:
    """The variable of a module, or the attribute of what one holds, that an object is in; else empty."""
    held = {value.id: place[1] for place, value in m.globals.items() if isinstance(value, HeapV)}
    for _ in range(_DEEPEST):
        if made.id in held:
            return held[made.id]
        inside = (m.heap[number] for number in held)
        held = {
            value.id: name
            for one in inside
            if one.shape is Shape.INSTANCE
            for name, value in one.attrs.items()
            if isinstance(value, HeapV)
        }
    return ""


def _giving(project: Project, held_as: str, name: str) -> Iterator[Span]:
    """The functions that give an attribute of what is held so something that is not written there."""
    for other in project.storing(name):
        module = project.module(other)
        for decl, cls in scopes.methods_and_functions(module) if module is not None else ():
            scope = scopes.scope_of(module, decl, cls) if module is not None and name in decl.stored else None
            if scope is not None and any(
                _gives(project, scope, node, held_as, name) for node in ir.walk(scope.function.body)
            ):
                yield scope.function.span


def _gives(project: Project, scope: Scope, node: object, held_as: str, name: str) -> bool:
    match node:
        case ir.Assign(targets=(ir.Attr(value=owner, name=attribute),), value=value) if attribute == name:
            return not isinstance(value, ir.Const) and held_as in _last_names(project, scope, owner)
        case _:
            return False


def _last_names(project: Project, scope: Scope, owner: ir.Expr) -> Iterator[str]:
    """``moe`` of ``settings().moe``, also where a variable stands for that."""
    match owner:
        case ir.Attr(name=name):
            yield name
        case ir.Name(id=name):
            yield name
            yield from (e.name for e in writes.to_name(project, scope, name) if isinstance(e, ir.Attr))
        case _:
            pass


def _called(m: Machine, function: ir.Function) -> frozenset[str]:
    return m.project.once(
        _CALLED,
        function.span,
        lambda: frozenset(ir.called(node) for node in ir.walk(function.body) if isinstance(node, ir.Call)),
    )
