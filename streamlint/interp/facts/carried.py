"""What one function does with an event that objects hold by some name, and to what else it gives it.

``events.append(group.events[i])``, then ``group.events = events``: it only carries them along. An object that
is made with it, ``Task(rows, event=ready)``, holds it by the name that its class gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import classes, scopes
from streamlint.interp.state.values import ClassV
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Target
    from streamlint.source import Span


@frozen()
class Purpose:
    """Of what uses are looked for."""

    harmless: frozenset[str]
    """Calls with the event, or of it, that are no such use."""
    objects: bool
    """Whether it is known by which names the objects hold it that are made with it."""


@frozen()
class Field:
    """An attribute by which the objects of one class hold it: constructors put it there."""

    name: str
    cls: ir.ClassDecl

    def is_of(self, project: Project, other: ir.ClassDecl) -> bool:
        """Whether an object of another class may be one of these, by what the one inherits from the other."""
        return other in project.ancestors(self.cls)[0] or self.cls in project.ancestors(other)[0]


@dataclass(slots=True)
class Use:
    """What one function does with an event."""

    project: Project
    module: ir.Module
    body: object
    attributes: frozenset[str]
    """Names under which objects hold it, or a container with it."""
    asked_for: Purpose
    aliases: set[str] = field(default_factory=set)
    """Variables that may hold it."""
    receiver: str = ""
    of_receiver: frozenset[str] = frozenset()
    """Attributes of the function's own object that are other events."""
    kept: set[str] = field(default_factory=set)
    """Further attributes that it is given to."""
    fields: set[Field] = field(default_factory=set)
    """The same of objects that are made with it."""
    of_class: frozenset[str] = frozenset()
    """Those of the names by which only objects of some classes hold it."""
    others: frozenset[tuple[str, str]] = frozenset()
    """Variables with attributes of theirs that are something else: ``task: Task`` has another ``event``."""
    made: Span | None = None
    """Where it is made, if that is in this function."""
    constructs: bool = False
    """Whether the function is a constructor that got it: what it makes with it is not followed."""
    own: set[int] = field(default_factory=set)
    """Expressions that stand for an event which was made right before, by their ``id``."""

    def follow(self) -> None:
        """Finds the variables and attributes to which it goes."""
        known = -1
        while known != len(self.aliases) + len(self.kept) + len(self.fields):
            known = len(self.aliases) + len(self.kept) + len(self.fields)
            for node in ir.walk(self.body, functions=True):
                for target, value in _flows(node):
                    if self._is_it(value):
                        self.give(target)
                self.fields.update(held for held, value in self._kept_by_object(node) if self._is_it(value))

    def does_more(self) -> bool:
        """Whether it does more with it than to make, keep and test it, to let it go, and what is harmless."""
        harmless: set[int] = set()
        mentions: set[int] = set()
        for node in ir.walk(self.body, functions=True):
            match node:
                case ir.Unread():
                    return True
                case ir.Name() | ir.Attr() | ir.Call() if self._is_named(node):
                    mentions.add(id(node))
                case _:
                    pass
            for part in self._harmless(node):
                harmless.update(id(inner) for inner in self._chain(part))
        return not mentions <= harmless | self.own

    def waits(self) -> Iterator[Span]:
        """Where it is waited for, or asked whether it is complete."""
        for node in ir.walk(self.body, functions=True):
            if isinstance(node, ir.Call) and ir.called(node) in vocabulary.ORDERS - vocabulary.RECORDS:
                owner = (node.func.value,) if isinstance(node.func, ir.Attr) else ()
                if any(self._is_it(part) for part in (*owner, *(arg.value for arg in node.args))):
                    yield node.span

    def forget_own(self) -> None:
        """Takes records of events that were made on the spot for harmless.

        ``events.append(torch.cuda.Event())``, then ``events[-1].record()``: that is another event.
        """
        for node in (self.body, *ir.walk(self.body, functions=True)):
            for block in (node, *ir.children(node)):
                if isinstance(block, tuple):
                    self.own.update(_records_of_new(block))

    def _is_named(self, e: ir.Expr) -> bool:
        match e:
            case ir.Name(id=name):
                return name in self.aliases
            case ir.Call(span=span) if span == self.made:
                return True
            case ir.Attr(value=ir.Name(id=owner), name=name) if (owner, name) in self.others:
                return False
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == self.receiver:
                return name in self.attributes | self.kept and name not in self.of_receiver
            case ir.Attr(name=name):
                return name in self.attributes | self.kept
            case ir.Call(func=ir.Name(id="getattr"), args=(_, ir.Arg(value=ir.Const(value=name)), *_)):
                return name in self.attributes | self.kept
            case _:
                return False

    def _is_it(self, e: ir.Expr | None) -> bool:
        """Whether an expression may give it, or a container with it."""
        return e is not None and any(True for _ in self._chain(e))

    def _chain(self, e: ir.Expr | None) -> Iterator[ir.Expr]:
        """The mentions by which an expression gives it: ``self.done`` of ``self.done[k]``."""
        match e:
            case ir.Name() | ir.Attr() | ir.Call() if self._is_named(e):
                yield e
            case ir.Index(value=value) | ir.Star(value=value) | ir.Await(value=value) | ir.Bind(value=value):
                yield from self._chain(value)
            case ir.Call(func=ir.Attr(value=value, name=name)) if name in python.CONTAINER_METHODS:
                yield from self._chain(value)
            case ir.Call(func=ir.Name(id=name), args=args) if name in python.HANDLES_VALUES:
                for arg in args:
                    yield from self._chain(arg.value)
            case ir.Seq(items=items) | ir.Boolean(operands=items):
                for item in items:
                    yield from self._chain(item)
            case ir.DictDisplay(items=pairs):
                for _, value in pairs:
                    yield from self._chain(value)
            case ir.Choice(body=body, orelse=orelse):
                yield from self._chain(body)
                yield from self._chain(orelse)
            case ir.Comprehension(element=element):
                yield from self._chain(element)
            case ir.Binary(left=left, right=right):
                yield from self._chain(left)
                yield from self._chain(right)
            case _:
                pass

    def give(self, target: ir.Expr) -> None:
        match target:
            case ir.Name(id=name):
                self.aliases.add(name)
            case ir.Attr(name=name):
                self.kept |= {name} - (self.attributes - self.of_class)
            case ir.Index(value=value) | ir.Star(value=value):
                self.give(value)
            case ir.Seq(items=items):
                for item in items:
                    self.give(item)
            case _:
                pass

    def _harmless(self, node: object) -> Iterable[ir.Expr | None]:
        """Parts of a node that can be the event without what is asked for being done to it there."""
        match node:
            case ir.Assign(targets=targets, value=value):
                unseen = not self.asked_for.objects and any(map(_is_of_result, targets))
                return targets if unseen else (*targets, value)
            case ir.AugAssign(target=target, value=value):
                return target, value
            case ir.Declare(target=target):
                return (target,)
            case ir.For(target=target, iter=source) | ir.Generator(target=target, iter=source):
                return target, source
            case ir.Delete(targets=targets):
                return targets
            case ir.Compare(left=left, right=right):
                return left, right
            case ir.Unary(operand=tested) | ir.If(test=tested) | ir.While(test=tested):
                return (tested,)
            case ir.Choice(test=tested) | ir.Assert(test=tested) | ir.Eval(value=tested):
                return (tested,)
            case ir.Call(func=func, args=args):
                kept = (value for _, value in self._kept_by_object(node))
                return (*self._harmless_in_call(func, args), *kept)
            case _:
                return ()

    def _harmless_in_call(self, func: ir.Expr, args: tuple[ir.Arg, ...]) -> Iterable[ir.Expr | None]:
        values = tuple(arg.value for arg in args)
        match func:
            case ir.Attr(value=owner, name=name) if name in self.asked_for.harmless:
                return (owner, *values)
            case ir.Attr(value=owner, name=name) if name in python.CONTAINER_METHODS:
                return (owner, *values)
            case ir.Name(id=name) if name in python.HANDLES_VALUES | self.asked_for.harmless:
                return values
            case ir.Name() | ir.Attr() if self.asked_for.objects and isinstance(self._called(func), ClassV):
                # Pending(out, self.done): the object has it, by a name that the path at hand shows.
                return values
            case ir.Attr() if self._is_named(func):
                # request.done(): no event is called.
                return (func,)
            case _:
                return ()

    def _kept_by_object(self, node: object) -> Iterator[tuple[Field, ir.Expr]]:
        """What a constructor only keeps of its arguments, and as what: ``Task(rows, event=ready)``."""
        if self.asked_for.objects or self.constructs or not isinstance(node, ir.Call):
            return
        made = self._called(node.func) if isinstance(node.func, (ir.Name, ir.Attr)) else None
        if isinstance(made, ClassV) and any(map(self._is_it, (arg.value for arg in node.args))):
            yield from _kept(self.project, made.decl, node, self.asked_for)

    def _called(self, func: ir.Expr) -> object:
        return self.project.named(self.module.name, ir.dotted(func)) if "?" not in ir.dotted(func) else None


def _kept(
    project: Project, cls: ir.ClassDecl, call: ir.Call, asked_for: Purpose
) -> Iterator[tuple[Field, ir.Expr]]:
    """What the constructor of a class only keeps of its arguments."""
    declared = classes.fields_of_constructor(project, cls)
    if declared is not None:
        passed = ((name, scopes.argument_of(call, name, declared)) for name in declared)
        yield from ((Field(name, cls), value) for name, value in passed if value is not None)
        return
    target = scopes.constructor_of(project, cls)
    for param in target.params()[1:]:
        value = scopes.argument_of(call, param.name, target.positional())
        if value is not None:
            yield from ((Field(name, cls), value) for name in _names_kept(project, target, param, asked_for))


def _names_kept(project: Project, target: Target, param: ir.Param, asked_for: Purpose) -> list[str]:
    """The attributes to which a constructor gives a parameter, if it does no more with it."""
    function = ir.code_of(target.function) if target.function is not None else None
    owner = project.module(target.function.module) if target.function is not None else None
    if function is None or owner is None:
        return []
    use = Use(project, owner, function.body, frozenset(), asked_for, {param.name}, constructs=True)
    use.follow()
    return [] if use.does_more() else sorted(use.kept)


def _is_of_result(target: ir.Expr) -> bool:
    """``current().after``: whose object that is, and what its code does with what it gets, is not seen."""
    while isinstance(target, (ir.Attr, ir.Index)):
        target = target.value
    return isinstance(target, ir.Call)


def _records_of_new(block: Sequence[object]) -> Iterator[int]:
    """The lists in ``events[-1].record()`` right behind ``events.append(torch.cuda.Event())``."""
    for before, behind in pairwise(block):
        match before, behind:
            case (
                ir.Eval(value=ir.Call(func=ir.Attr(value=filled, name="append"), args=(made,))),
                ir.Eval(value=ir.Call(func=ir.Attr(value=ir.Index(value=of, index=last), name=name))),
            ) if (
                isinstance(made.value, ir.Call)
                and ir.called(made.value) in vocabulary.MAKES_EVENT
                and name in vocabulary.RECORDS
                and _is_last(last)
                and "?" not in ir.dotted(filled)
                and ir.dotted(of) == ir.dotted(filled)
            ):
                yield id(of)
            case _:
                pass


def _is_last(index: ir.Expr) -> bool:
    match index:
        case ir.Const(value=-1) | ir.Unary(op="-", operand=ir.Const(value=1)):
            return True
        case _:
            return False


def _flows(node: object) -> Iterator[tuple[ir.Expr, ir.Expr]]:
    """What is given to what: by assignments, loops, and what a container is told to keep."""
    match node:
        case ir.Assign(targets=targets, value=value):
            for target in targets:
                yield target, value
        case ir.AugAssign(target=target, value=value):
            yield target, value
        case ir.For(target=target, iter=source) | ir.Generator(target=target, iter=source):
            yield target, source
        case ir.Bind(span=span, name=name, value=value):
            yield ir.Name(span, name), value
        case ir.Call(func=ir.Attr(value=owner, name=name), args=args) if name in python.CONTAINER_METHODS:
            for arg in args:
                yield owner, arg.value
        case _:
            pass
