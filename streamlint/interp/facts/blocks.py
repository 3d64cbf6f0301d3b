"""Objects whose blocks run on a stream of their own: ``with lane:`` makes ``lane.stream`` the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, constructors, decorators
from streamlint.interp.facts.text_order import held_name
from streamlint.interp.state.kept import Kept
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project

_MADE_CURRENT: Kept[ir.ClassDecl, frozenset[str]] = Kept()


def made_current(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    """The attributes with the streams that are current in a block of an object, and made so where it begins.

    ``def __enter__(self): torch.cuda.set_stream(self.lane)``, or ``self.inside.__enter__()`` of what the
    constructor has made: ``self.inside = torch.cuda.stream(self.lane)``.
    """
    return project.once(_MADE_CURRENT, cls, lambda: _made_current(project, cls))


def _made_current(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    return _by_object(project, cls) | _by_methods(project, cls)


def _by_methods(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    """``@contextmanager def active(self): with torch.cuda.stream(self.lane): yield``"""
    decls = filter(decorators.makes_context, classes.methods(project, cls).values())
    functions = filter(None, map(ir.code_of, decls))
    found: set[str] = set()
    for block in (node for function in functions for node in ir.walk(function.body)):
        if isinstance(block, ir.With) and any(isinstance(node, ir.Yield) for node in ir.walk(block.body)):
            for item in block.items:
                match item.context:
                    case ir.Call(func=ir.Attr(name=name) | ir.Name(id=name), args=args) if (
                        name in vocabulary.ENTERS_STREAM
                    ):
                        found = found.union(*(held_name(arg.value) for arg in args))
                    case other:
                        found |= held_name(other)
    return frozenset(found)


def surround(function: ir.Function, call: ir.Call, given: ir.Expr, *, also_later: bool) -> bool:
    """Whether a call stands in a block of the stream that it passes: ``with stream(work): Env(work)``.

    ``also_later``: or the block stands behind it, and may call methods of what the call has made.
    """
    name = ir.dotted(given) if isinstance(given, (ir.Name, ir.Attr)) else "?"
    return "?" not in name and any(
        any(_selected(item.context) == name for item in block.items)
        and (any(node is call for node in ir.walk(block.body)) or (also_later and _is_behind(block, call)))
        for block in ir.walk(function.body)
        if isinstance(block, ir.With)
    )


def _selected(context: ir.Expr) -> str:
    """``work`` of ``with work:`` and of ``with torch.cuda.stream(work):``"""
    match context:
        case ir.Call(args=(first, *_)) if ir.called(context) in vocabulary.ENTERS_STREAM:
            return ir.dotted(first.value)
        case _:
            return ir.dotted(context)


def _is_behind(block: ir.With, call: ir.Call) -> bool:
    return block.span.line > call.span.line


def _by_object(project: Project, cls: ir.ClassDecl) -> frozenset[str]:
    entering = list(_entering(project, cls))
    called = frozenset().union(*(decl.called for decl in entering))
    if not called.isdisjoint((*python.BEGINS_BLOCK, "enter_context")):
        entering += constructors.constructing(project, cls)
    return frozenset().union(*map(_left_current, entering))


def _entering(project: Project, cls: ir.ClassDecl) -> Iterator[ir.FunctionDecl]:
    """What runs where a block begins."""
    methods = classes.methods(project, cls)
    waiting = [methods[name] for name in python.BEGINS_BLOCK if name in methods]
    seen = set(waiting)
    while waiting:
        decl = waiting.pop()
        yield decl
        more = {methods[name] for name in decl.called & decl.own & methods.keys()} - seen
        waiting += sorted(more, key=lambda one: one.name)
        seen |= more


def _left_current(decl: ir.FunctionDecl) -> frozenset[str]:
    """What a function makes current other than for a block of its own."""
    entering = vocabulary.ENTERS_STREAM.union(python.BEGINS_BLOCK)
    function = ir.code_of(decl) if not entering.isdisjoint(decl.called) else None
    if function is None:
        return frozenset()
    own = {
        item.context.span
        for node in ir.walk(function.body)
        if isinstance(node, ir.With)
        for item in node.items
        if isinstance(item.context, ir.Call)
    }
    found: set[str] = set()
    for node in ir.walk(function.body):
        match node:
            case ir.Call(span=span, func=ir.Attr(value=receiver, name=name), args=args) if (
                name in entering and span not in own
            ):
                found = found.union(held_name(receiver), *(held_name(arg.value) for arg in args))
            case ir.Call(span=span, func=ir.Name(id=name), args=args) if name in entering and span not in own:
                found = found.union(*(held_name(arg.value) for arg in args))
            case _:
                pass
    return frozenset(found)
