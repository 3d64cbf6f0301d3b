"""Objects of classes of the tree that unseen code passes: made when code first uses a member of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import blocks, classes, element_classes, given_classes, scopes
from streamlint.interp.library import feeding, stream_values
from streamlint.interp.python import instances, unseen_caller
from streamlint.interp.state import arguments, at_work, names, naming, symbols
from streamlint.interp.state.ends import PathEnds, Returned
from streamlint.interp.state.values import NONE, EventV, FuncV, HeapV, StreamV, SymV, Value
from streamlint.models.python import MAKES_OBJECTS
from streamlint.models.schema import Role
from streamlint.trace import MAIN_LANE

if TYPE_CHECKING:
    from streamlint.interp.facts.given_classes import Given
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.scope import Scope
    from streamlint.interp.state.symbols import Symbol

_FIRST_NUMBER = 1000
"""Arguments of the constructors of such objects are numbered apart from those of outside calls."""


def settled(m: Machine, value: Value, *used: str) -> Value:
    """An unknown argument as the object that it is, if the tree shows its class.

    ``def report(meter: Meter): meter.pull()``. It was made, and used, long before. What only its use shows is
    a decision of the path. ``used`` are the members that the code may be about to call.
    """
    if not isinstance(value, SymV):
        return value
    symbol = value.symbol
    given = _class_of(m, symbol)
    if given is None or _is_being_made(m, given.cls):
        return value
    if not given.orders and not _does_work(m, given.cls, symbol, used):
        return value
    if not given.shown:
        asked = symbols.call("class of", _all_alike(symbol), symbols.constant(given.cls.name))
        told = f"`isinstance({symbols.text_of(symbol)}, {given.cls.name})`"
        if m.oracle.choose(asked, told, relevant=False):
            return value
    made = _made(m, given.cls, symbol)
    m.roles[symbol] = made
    return made


def _all_alike(symbol: Symbol) -> Symbol:
    """What stands for all elements of a container: ``for block in blocks: block.reduce()`` has one kind."""
    return symbols.Item(symbol.of, symbols.EACH) if isinstance(symbol, symbols.Item) else symbol


def member(m: Machine, owner: Symbol, name: str) -> symbols.Attr:
    """An attribute of an unknown object, noted as the field of the class that annotations or callers show.

    ``def build(self, batch: Batch): batch.lens + 1``, where ``class Batch`` says ``lens: np.ndarray``.
    """
    found = symbols.Attr(owner, name)
    if found not in m.owners:
        cls = _said(m, owner)
        if cls is not None:
            m.owners[found] = (cls, name)
    return found


def _said(m: Machine, symbol: Symbol) -> ir.ClassDecl | None:
    if symbol in m.owners:
        return given_classes.of_field(m.project, *m.owners[symbol])
    given = _passed(m, symbol)
    return given.cls if given is not None and given.shown else None


def _passed(m: Machine, symbol: Symbol) -> Given | None:
    match symbol:
        case symbols.Param(call, name, rest=False) if call in m.targets:
            return given_classes.of_parameter(m.project, m.targets[call], name)
        case symbols.Item(symbols.Param(call, name, rest=False)) if call in m.targets:
            return element_classes.of_element(m.project, m.targets[call], name)
        case _:
            return None


def _class_of(m: Machine, symbol: Symbol) -> Given | None:
    given = _passed(m, symbol)
    if given is not None or arguments.passed(symbol) is None:
        return given
    scope = _running(m)
    held = next((held for held, value in m.frame.env.names.items() if value == SymV(symbol)), None)
    return given_classes.of_name(m.project, scope, held) if scope is not None and held is not None else None


def is_module(m: Machine, value: SymV) -> bool:
    """Whether what callers pass is a module, as its use suggests: ``self.model = model.cuda()``."""
    given = _class_of(m, value.symbol)
    return given is not None and classes.is_module(m.project, given.cls)


def _running(m: Machine) -> Scope | None:
    """The text of the function that runs."""
    module = at_work.module(m)
    owner = m.frame.cls or module
    if module is None or owner is None:
        return None
    decls = owner.methods if isinstance(owner, ir.ClassDecl) else owner.functions
    decl = decls.get(m.frame.function.rpartition(".")[2])
    return scopes.scope_of(module, decl, m.frame.cls) if decl is not None else None


def _does_work(m: Machine, cls: ir.ClassDecl, symbol: Symbol, used: tuple[str, ...]) -> bool:
    """Whether a method is called: what it reads and writes matters.

    ``with torch.cuda.stream(self.prefetch_stream): self.table.populate(batch)``; or one is called further
    below, ``runner.table.add(request)`` and then ``runner.step()``. Not if the path has decided about the
    object before, of which the one that is made now knows nothing.
    """
    match symbol:
        case symbols.Param(call, param, rest=False) if used and call in m.targets:
            used = (*used, *given_classes.called_of(m.project, m.targets[call], param))
        case _:
            pass
    called = (classes.lookup(m, cls, name) for name in used)
    if not any(isinstance(one, FuncV) and not _is_left_to_others(one.function) for one in called):
        return False
    return not any(symbols.contains(asked, symbol) for asked in m.oracle.memo)


def _is_left_to_others(function: ir.FunctionDecl | ir.Function) -> bool:
    """Whether classes that are derived do the work: the object is one of those."""
    code = ir.code_of(function)
    return code is not None and classes.is_abstract(code)


def _place(cls: ir.ClassDecl) -> tuple[str, str]:
    return ("being made", f"{cls.module}:{cls.qualname}")


def _is_being_made(m: Machine, cls: ir.ClassDecl) -> bool:
    return _place(cls) in m.globals


def _made(m: Machine, cls: ir.ClassDecl, symbol: Symbol) -> HeapV:
    """An object as other code has made and used it: what its constructor queued is complete."""
    made = classes.new(m, cls)
    m.given_objects.add(made.id)
    m.heap[made.id].symbol = symbol
    m.globals[_place(cls)] = NONE
    outer, constructing, m.constructing = m.calls, m.constructing, True
    # It was made long before, and not by the thread that comes to use it first.
    m.calls, lane, m.lane = [], m.lane, MAIN_LANE
    first, feeders, known = len(m.ops), set(m.feeders), len(m.streams)
    try:  # also where the path is cut in the constructor: the functions around it end as they began
        with suppress(PathEnds, Returned):
            args, kwargs = unseen_caller.constructor_arguments(m, cls, _FIRST_NUMBER + len(m.targets))
            instances.initialize(m, made, cls, args, kwargs, cls.span)
    finally:
        m.calls, m.constructing, m.lane = outer, constructing, lane
        del m.globals[_place(cls)]
    m.forget_ops(first)
    _note_owner(m, cls, symbol, known)
    feeding.was_taken(m, feeders)
    _was_used(m, made, cls, symbol)
    for name in blocks.made_current(m.project, cls):
        value = m.heap[made.id].attrs.get(name)
        if value is not None and stream_values.is_shown(m, value, Role.STREAM):
            stream = stream_values.as_stream(m, value, cls.span)
            m.streams[stream.id] = replace(m.streams[stream.id], may_be_current=True)
    return made


def _note_owner(m: Machine, cls: ir.ClassDecl, symbol: Symbol, known: int) -> None:
    """Notes whose the streams are that an object has made for itself.

    ``groups = [Group(weight, context) for weight in weights]``, and ``for group in groups: group.reduce()``:
    each waits for streams of its ``context``, which may be the one that all of them have.
    """
    if not isinstance(symbol, symbols.Param):
        return
    handed_on = symbol.call >= _FIRST_NUMBER
    for number, (stream, made) in enumerate(list(m.streams.items())[known:]):
        if not made.part_of:
            part = f"{cls.module}:{cls.qualname} {number}"
            m.streams[stream] = replace(made, part_of=part, handed_on=handed_on)


def is_entered(m: Machine, value: HeapV) -> None:
    """Who enters a block of an object was not called from inside of one."""
    for held in m.heap[value.id].attrs.values():
        stream = names.settle(m, held)
        if isinstance(stream, StreamV):
            stream_values.is_another(m, stream)


def _was_used(m: Machine, made: HeapV, cls: ir.ClassDecl, symbol: Symbol) -> None:
    """Other methods may have been called before; its streams and events are known to who passes it."""
    order, whole = m.project.ancestors(cls)
    is_record = all(decl.name in MAKES_OBJECTS for one in order for decl in one.methods.values())
    others = (decl for one in order for decl in one.methods.values() if decl.name != "__init__")
    unseen_caller.after_other_calls(m, made, others, symbol)
    given = _taken_from_makers(m, cls)
    for name, value in m.heap[made.id].attrs.items():
        if isinstance(value, (StreamV, EventV)):
            naming.keep(m, value, symbols.Attr(symbol, name), in_record=is_record and whole)
        if isinstance(value, StreamV) and name in given:
            m.streams[value.id] = replace(m.streams[value.id], may_be_given=True)


def _taken_from_makers(m: Machine, cls: ir.ClassDecl) -> frozenset[str]:
    """Attributes that a constructor may take from who calls it: ``self.stream = stream or Stream()``."""
    target = scopes.constructor_of(m.project, cls)
    if target.function is None:
        return frozenset()
    params = {param.name for param in target.params()}
    return frozenset(name for name, sources in target.function.given if not params.isdisjoint(sources))
