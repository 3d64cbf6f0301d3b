"""Whether text may wait for an event that objects hold by some name, or give it to who may.

Traces show who waits on paths that were run. An event that is recorded (``self.done.record()``), and that all
text which can get at it only makes, records, keeps, tests and lets go, nobody waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import text_order
from streamlint.interp.state.values import ClassV
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span


@frozen()
class Held:
    """How code gets at an event."""

    attributes: frozenset[str]
    """Names under which objects hold it, or a container with it ..."""
    variables: frozenset[str]
    """... and variables of the module that makes it."""
    module: str
    maker: str
    made: Span | None
    """The function that makes it, and where: variables of its own may hold it, too."""


def may_be_awaited(project: Project, module: ir.Module, held: Held) -> tuple[bool, Held]:
    """Whether a module may wait for the event; and by what code gets at it, with what it is given to here.

    ``self.latest = self.done`` gives it one name more.
    """
    while True:
        known = held
        for use in _uses(project, module, held):
            use.follow()
            if use.does_more():
                return True, held
            held = replace(held, attributes=held.attributes | use.kept)
        if held == known:
            return False, held


def _uses(project: Project, module: ir.Module, held: Held) -> Iterator[_Use]:
    at_home = module.name == held.module
    variables = held.variables if at_home else frozenset[str]()
    names = held.attributes | variables
    for decl in ir.all_functions(module):
        makes = at_home and decl.qualname == held.maker
        if names.isdisjoint(decl.names) and not makes:
            continue
        function = ir.code_of(decl)
        if function is None:
            yield _Use(project, module, (ir.Unread(decl.span, ""),), held.attributes)
            continue
        use = _Use(project, module, function.body, held.attributes, set(variables))
        cls = decl.qualname.rpartition(".")[0]
        if cls and function.params and not (at_home and cls == held.maker.rpartition(".")[0]):
            use.receiver = function.params[0].name
            use.of_receiver = _made_by_class(module, cls, held.attributes)
        if makes:
            use.aliases |= _made_in(function, held.made)
        yield use
    if not names.isdisjoint(module.body_names):
        yield _Use(project, module, module.load_body(), held.attributes, set(variables))


def _made_by_class(module: ir.Module, cls: str, names: frozenset[str]) -> frozenset[str]:
    """Names under which a class has events that it makes itself: its ``self.done`` is another one."""
    methods = [decl for decl in ir.all_functions(module) if decl.qualname.rpartition(".")[0] == cls]
    return frozenset(name for name in names if any(text_order.makes(decl, name) for decl in methods))


def _made_in(function: ir.Function, at: Span | None) -> set[str]:
    """Variables that get the new event: ``done = torch.cuda.Event()``, ``done = side.record_event()``.

    Where no such call stands ``at`` the place itself, those that get any.
    """
    made: set[str] = set()
    here: set[str] = set()
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=targets, value=value):
                calls = [part for part in ir.walk(value) if isinstance(part, ir.Call)]
                names = {target.id for target in targets if isinstance(target, ir.Name)}
                if any(ir.called(call) in _MAKES for call in calls):
                    made |= names
                    here |= names if any(call.span == at for call in calls) else set()
            case _:
                pass
    return here or made


_MAKES = vocabulary.MAKES_EVENT | vocabulary.RECORDS


@dataclass(slots=True)
class _Use:
    """What one function does with the event."""

    project: Project
    module: ir.Module
    body: object
    attributes: frozenset[str]
    aliases: set[str] = field(default_factory=set)
    """Variables that may hold it."""
    receiver: str = ""
    of_receiver: frozenset[str] = frozenset()
    """Attributes of the function's own object that are other events."""
    kept: set[str] = field(default_factory=set)
    """Further attributes that it is given to."""

    def follow(self) -> None:
        """Finds the variables and attributes to which it goes."""
        known = -1
        while known != len(self.aliases) + len(self.kept):
            known = len(self.aliases) + len(self.kept)
            for node in ir.walk(self.body, functions=True):
                for target, value in _flows(node):
                    if self._is_it(value):
                        self._give(target)

    def does_more(self) -> bool:
        """Whether it does more with it than to make, record, keep and test it, and to let it go."""
        harmless: set[int] = set()
        mentions: set[int] = set()
        for node in ir.walk(self.body, functions=True):
            match node:
                case ir.Unread():
                    return True
                case ir.Name() | ir.Attr() if self._is_named(node):
                    mentions.add(id(node))
                case _:
                    pass
            for part in self._harmless(node):
                harmless.update(id(inner) for inner in self._chain(part))
        return not mentions <= harmless

    def _is_named(self, e: ir.Expr) -> bool:
        match e:
            case ir.Name(id=name):
                return name in self.aliases
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == self.receiver:
                return name in self.attributes | self.kept and name not in self.of_receiver
            case ir.Attr(name=name):
                return name in self.attributes | self.kept
            case _:
                return False

    def _is_it(self, e: ir.Expr | None) -> bool:
        """Whether an expression may give it, or a container with it."""
        return e is not None and any(True for _ in self._chain(e))

    def _chain(self, e: ir.Expr | None) -> Iterator[ir.Expr]:
        """The mentions by which an expression gives it: ``self.done`` of ``self.done[k]``."""
        match e:
            case ir.Name() | ir.Attr() if self._is_named(e):
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

    def _give(self, target: ir.Expr) -> None:
        match target:
            case ir.Name(id=name):
                self.aliases.add(name)
            case ir.Attr(name=name):
                self.kept |= {name} - self.attributes
            case ir.Index(value=value) | ir.Star(value=value):
                self._give(value)
            case ir.Seq(items=items):
                for item in items:
                    self._give(item)
            case _:
                pass

    def _harmless(self, node: object) -> Iterable[ir.Expr | None]:
        """Parts of a node that can be the event without anybody's waiting for it there."""
        match node:
            case ir.Assign(targets=targets, value=value):
                return (*targets, value)
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
                return self._harmless_in_call(func, args)
            case _:
                return ()

    def _harmless_in_call(self, func: ir.Expr, args: tuple[ir.Arg, ...]) -> Iterable[ir.Expr | None]:
        values = tuple(arg.value for arg in args)
        match func:
            case ir.Attr(value=owner, name=name) if name in vocabulary.RECORDS:
                return (owner, *values)
            case ir.Attr(value=owner, name=name) if name in python.CONTAINER_METHODS:
                return (owner, *values)
            case ir.Name(id=name) if name in python.HANDLES_VALUES:
                return values
            case ir.Name() | ir.Attr() if isinstance(self._called(func), ClassV):
                # Pending(out, self.done): the object has it, by a name that the path at hand shows.
                return values
            case ir.Attr() if self._is_named(func):
                # request.done(): no event is called.
                return (func,)
            case _:
                return ()

    def _called(self, func: ir.Expr) -> object:
        return self.project.named(self.module.name, ir.dotted(func)) if "?" not in ir.dotted(func) else None


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
