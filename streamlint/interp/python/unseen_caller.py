"""Calls as unseen code makes them: with unknown arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import (
    call_keys,
    classes,
    default_arms,
    given_apart,
    given_classes,
    guesses,
    kinds,
    modules,
    several,
)
from streamlint.interp.library import (
    autograd,
    devices,
    escape,
    hooks,
    tensors,
    threads,
    torch_modules,
    weakly,
)
from streamlint.interp.library.stored import own_memory
from streamlint.interp.python import functions
from streamlint.interp.state import arguments, callers, lifetime, names, stored, symbols
from streamlint.interp.state.ends import PathEnds, Returned
from streamlint.interp.state.put_off import Saved
from streamlint.interp.state.scope import Scope, Target
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    ClassV,
    ConstV,
    FuncV,
    GeneratorV,
    HeapV,
    Shape,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models.autograd import FORWARD, SETS_UP
from streamlint.models.python import GIVES_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def call_outside(m: Machine, func: FuncV, number: int) -> None:
    """Calls a function as unseen code would: parameters are unknown, or have their default."""
    callers.come_again(m, func, number)
    m.call = number
    if number:
        callers.begin(m, func.function.span, number)
        # What earlier calls have made is no longer in the hands of a statement that runs.
        m.frame.born = len(m.buffers)
    if isinstance(func.function, ir.FunctionDecl) and not m.constructing:
        m.targets[number] = Target(func.function)
    skip = 1 if func.receiver is not None else 0
    args, kwargs = (
        hooks.by_autograd(m, func, number)
        or autograd.saved_by_others(m, func)
        or outside_arguments(m, func, number, skip=skip)
    )
    device, thread = devices.current(m), threads.class_of_body(m, func)
    if thread is not None:
        devices.select(m, devices.of_new_thread(m))
        m.run_by_several |= threads.shares_process(m, thread) and several.are_made(m.project, thread)
    try:
        m.last_return = None
        result = m.python.call(m, func, args, kwargs, func.function.span)
        with lifetime.holding(m, TupleV((func, result))):
            weakly.after_statement(m, func.function.span)
        _used_by_caller(m, result, func.function.span)
        if isinstance(result, GeneratorV):
            returned = m.python.run_generator(m, result, lambda v: _consumed(m, v), func.function.span)
            if func.name in GIVES_STEPS:
                # await ticket
                _used_by_caller(m, returned, func.function.span)
        _handed_out(m, result, func.function.span)
        callers.lose_events(m)
    except Returned:
        pass
    finally:
        if thread is not None:
            devices.select(m, device)


def differentiate(m: Machine, cls: ir.ClassDecl, number: int) -> None:
    """Applies a function of autograd and runs a backward pass, as unseen code would."""
    forward = classes.lookup(m, cls, FORWARD)
    if not isinstance(forward, FuncV):
        return
    m.call = number
    span = forward.function.span
    callers.begin(m, span, number)
    if isinstance(forward.function, ir.FunctionDecl):
        m.targets[number] = Target(forward.function)
    takes_context = classes.lookup(m, cls, SETS_UP) is None
    args, kwargs = outside_arguments(m, forward, number, skip=int(takes_context))
    m.last_return = None
    result = autograd.applied(m, cls, args, kwargs, span)
    if result is not None:
        _used_by_caller(m, result, span)
        autograd.backward_of_others(m, span)


def call_hooked(m: Machine, symbol: Symbol, number: int, span: Span) -> None:
    """Runs a module as its model does, with the hooks that were registered for it."""
    m.call = number
    callers.begin(m, span, number)
    module, at = SymV(symbol), m.hooked_at[symbol]
    given: list[Value] = [arguments.unknown(number, "input")]
    hooks.before_call(m, module, given, at)
    torch_modules.reads_own(m, symbol, at)
    # What is made from now on belongs to another statement of the caller's.
    m.frame.born = len(m.buffers)
    hooks.after_call(m, module, given, _output(m, module, number, at), at)
    lifetime.after_statement(m, at)
    m.frame.born = len(m.buffers)


def _output(m: Machine, module: SymV, number: int, span: Span) -> Value:
    """What a module gives, of which hooks say what it is: ``def tap(module, args, output: Tensor)``."""
    output = torch_modules.output(m, number, span)
    for hook in hooks.that_get_results(m, module):
        function = _beginning(m, hook)
        taken = [param for param in function.params if param.kind == "positional"]
        if taken and _is_tensor(m, taken[-1], function.module):
            return tensors.as_buffer(m, output)
    return output


def _is_tensor(m: Machine, param: ir.Param, module: str) -> bool:
    said = kinds.annotated(param.annotation, kinds.Names(m.project, module)).kind
    return param.default is None and said is kinds.Kind.MEMORY


def call_backward(m: Machine, number: int, span: Span) -> None:
    """Runs a backward pass of the caller's, and the hooks of the tensors in it.

    It has used those tensors, as the forward pass before it has.
    """
    m.call = number
    callers.begin(m, span, number)
    m.frame.born = len(m.buffers)
    hooks.of_others(m, span)
    lifetime.after_statement(m, span)
    m.frame.born = len(m.buffers)


def call_saving(m: Machine, pack: FuncV, unpack: FuncV, number: int) -> None:
    """An operator that is not seen saves a tensor, which goes through a hook, and lets it go."""
    m.call = number
    span = pack.function.span
    callers.begin(m, span, number)
    m.frame.born = len(m.buffers)
    given = autograd.saved_by_others(m, pack)
    if given is not None:
        saved, _ = given
        packed = m.python.call(m, pack, saved, {}, span)
        m.saved += [Saved(view.id, unpack, packed, number) for view in tensors.buffers_in(m, saved)]
    lifetime.after_statement(m, span)


def call_asking(m: Machine, number: int, span: Span) -> None:
    """A backward pass that is not seen asks for what was saved."""
    m.call = number
    callers.begin(m, span, number)
    m.frame.born = len(m.buffers)
    autograd.asks_for_saved(m, span)


def _consumed(m: Machine, value: Value) -> Value:
    """A value is yielded to unseen code; gives what that sends back."""
    views = (
        []
        if escape.carries_order(m, [value])
        else tensors.buffers_in(m, [value], unknown=False, objects=True)
    )
    if (at := m.frame.statement) is not None:
        callers.consume(m, views, at)
    callers.hand_out(m, value, views)
    return m.fresh("sent")


def _handed_out(m: Machine, value: Value, span: Span) -> None:
    # return out, done: who gets the event too may wait for it before it lets the memory go.
    views = (
        []
        if escape.carries_order(m, [value])
        else tensors.buffers_in(m, [value], unknown=False, objects=True)
    )
    callers.hand_out(m, value, views, m.last_return or span)


def after_other_calls(
    m: Machine, made: HeapV, others: Iterable[ir.FunctionDecl], symbol: Symbol = symbols.SELF
) -> None:
    """Makes unknown what these methods may have changed since the constructor.

    What is still ``None``, ``False``, empty or the name of a state (``self.state = "idle"``) in a new object,
    or in an object that it holds, says nothing about a used one. So does a member of an enumeration, where
    one of them assigns another (``self.state = State.COPYING``).
    """
    others = list(others)
    names = frozenset().union(*(decl.names for decl in others))
    stored = frozenset().union(*(decl.stored for decl in others if decl.name != "__init__"))
    waiting = [(symbol, made)]
    seen: set[int] = set()
    while waiting:
        owner, value = waiting.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        attributes = m.heap[value.id].attrs
        for name in sorted(attributes.keys() & names):
            part = symbols.Attr(owner, name)
            match attributes[name]:
                case ConstV(member=True) if name not in stored:
                    # self.mode = Mode.IN_ORDER, which only the constructor chooses.
                    pass
                case ConstV(None | False | str()) | ConstV(member=True):
                    attributes[name] = SymV(part)
                    cls = m.heap[value.id].cls
                    if cls is not None:
                        m.owners[part] = (cls, name)
                case HeapV(number) as held if m.heap[number].shape is Shape.INSTANCE:
                    waiting.append((part, held))
                case HeapV(number) if not m.heap[number].items:
                    m.heap[number].open = True
                case _:
                    pass


def _used_by_caller(m: Machine, result: Value, span: Span) -> None:
    """The caller may use what it gets at once; given the stream or an event too, it can order that itself.

    Given an object with a graph and what that writes, it launches the graph first.
    """
    orders = escape.carries_order(m, [result])
    guesses.computed_aside(m, result)
    given = [] if orders else tensors.buffers_in(m, [result], unknown=False, objects=True)
    if not orders:
        launched = escape.written_by_graphs(m, [result])
        given = [view for view in given if view.id not in launched]
        handed = [view for view in _put_into_arguments(m) if view not in given]
        for view in handed:
            m.buffers[view.id] = replace(m.buffers[view.id], handed=True)
        given += handed
    callers.end_call(m, given, m.last_return or span, uses_arguments=not orders)
    escape.handed_back(m, result, span)


def _put_into_arguments(m: Machine) -> list[BufferV]:
    """Memory of the code's own that the call has put into what it was given.

    ``def fetch(self, cache: list, layer): cache[layer] = host.to("cuda", non_blocking=True)``
    """
    return [
        view
        for place, value in m.roles.items()
        if isinstance(owner := stored.whole(place), symbols.Param)
        and owner.call == m.call
        and owner is not place
        for view in own_memory(m, value)
    ]


def constructor_arguments(m: Machine, cls: ir.ClassDecl, number: int) -> tuple[list[Value], dict[str, Value]]:
    """What unseen code passes to make an object; ``number`` is that of the call."""
    init = classes.lookup(m, cls, "__init__")
    own = init.function if isinstance(init, FuncV) and isinstance(init.function, ir.FunctionDecl) else None
    m.targets[number] = Target(own, cls)
    if isinstance(init, FuncV):
        owner = next((one for one in m.project.ancestors(cls)[0] if "__init__" in one.methods), cls)
        return outside_arguments(m, init, number, skip=1, owner=owner)
    fields = classes.dataclass_fields(m, cls) or {}
    given = {name: arguments.unknown(number, name) for name in fields}
    m.owners.update({value.symbol: (cls, name) for name, value in given.items()})
    tensor = {name for name, default in fields.items() if default is None and _is_of_tensors(m, cls, name)}
    return [], {name: tensors.as_buffer(m, one) if name in tensor else one for name, one in given.items()}


def _is_of_tensors(m: Machine, cls: ir.ClassDecl, name: str) -> bool:
    """``rows: torch.Tensor`` in a dataclass."""
    for one in m.project.ancestors(cls)[0]:
        for annotation in classes.declared(one).get(name, ())[:1]:
            said = kinds.annotated(annotation, kinds.Names(m.project, one.module))
            return said.kind is kinds.Kind.MEMORY
    return False


def _beginning(m: Machine, func: FuncV) -> ir.Function:
    """The code of a function, or what can be read of it; where it cannot be read the path ends."""
    try:
        return functions.loaded(func, outside=True)[0]
    except ir.LoweringError as error:
        m.project.budgets.left_out.add(error.message)
        raise PathEnds from error


def outside_arguments(
    m: Machine, func: FuncV, number: int, *, skip: int, owner: ir.ClassDecl | None = None
) -> tuple[list[Value], dict[str, Value]]:
    """One value for each parameter. Numbers, texts, classes and functions take their default, flags are open.

    What ``**options`` holds is unknown.
    """
    function = _beginning(m, func)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    module = m.project.module(function.module)
    scope = Scope(module, function, owner or classes.class_of(m, func, [])) if module is not None else None
    keys = _keys(m, func)
    equal = _known_keys(m, keys)
    for position, param in enumerate(function.params):
        if position < skip and param.kind == "positional":
            continue
        value = _taken_apart(m, func, param.name) or _outside_value(m, param, number, function.module, scope)
        if isinstance(value, SymV):
            value = equal.get(param.name, value)
            m.keys.update(((attribute, param.name), value) for attribute in keys.get(param.name, ()))
        if param.kind == "positional":
            args.append(value)
        elif param.kind == "keyword":
            kwargs[param.name] = value
        elif param.kind == "*":
            args.append(arguments.unknown(number, param.name, rest=True))
        else:
            kwargs[callers.REST] = arguments.unknown(number, param.name)
    return args, kwargs


def _given_back(m: Machine, number: int, param: str) -> HeapV | None:
    """The object of the parameter's class that an earlier call has handed out, the last one of them.

    ``def wait(self, ticket: Ticket)`` gets what ``submit()`` returned.
    """
    if not number or number not in m.targets:
        return None
    handed = [part for value in (*m.life.outside, *m.life.lent) for part in _objects_in(m, value)]
    if not handed:
        return None
    given = given_classes.of_parameter(m.project, m.targets[number], param)
    if given is None:
        return None
    return next((one for one in reversed(handed) if m.heap[one.id].cls is given.cls), None)


def _taken_apart(m: Machine, func: FuncV, param: str) -> TupleV | None:
    """The several things that an earlier call has returned, and that this one takes apart (``given_apart``).

    The last of them comes first, as a backward pass has it.
    """
    many = given_apart.into(m.project, func.function, param)
    handed = m.life.outside
    for number in range(len(handed) - 1, -1, -1) if many else ():
        value = handed[number]
        if isinstance(value, TupleV) and len(value.items) in many:
            del handed[number]
            return value
    return None


def _objects_in(m: Machine, value: Value) -> Iterator[HeapV]:
    match names.settle(m, value):
        case HeapV(number) as made if m.heap[number].cls is not None:
            yield made
        case TupleV(items):
            for item in items:
                if isinstance(item, HeapV) and m.heap[item.id].cls is not None:
                    yield item
        case _:
            pass


def _keys(m: Machine, func: FuncV) -> dict[str, frozenset[str]]:
    if m.constructing or not isinstance(func.function, ir.FunctionDecl):
        return {}
    match func.receiver:
        case HeapV(number):
            cls = m.heap[number].cls
        case ClassV(cls):
            pass
        case _:
            return {}
    return call_keys.of(m.project, cls, func.function) if cls is not None else {}


def go_on(m: Machine) -> None:
    """The next call gets other keys: those that the last ones have computed of theirs, if they did.

    ``def before(self, layer): self._load(layer + 1)``: who calls it again goes on to that layer. What is
    passed on beside that stays: ``self._load(layer + 1, part)`` is for the next layer of the same part.
    """
    following = {place: _computed_of(m, value.symbol) for place, value in m.keys.items()}
    goes_on = any(key is not None for key in following.values())
    for place, key in following.items():
        if key is not None:
            m.keys[place] = SymV(key)
        elif not goes_on:
            del m.keys[place]


def _computed_of(m: Machine, key: Symbol) -> Symbol | None:
    """The only other key of some container that was computed of a key."""
    used = [at for held in m.heap.values() for at in (*held.entries, *held.extra)]
    used += [at for role in m.roles for at in _keys_in(role)]
    found = {
        at
        for at in used
        if isinstance(at, symbols.Binary) and at.op in "+-" and at is not key and symbols.contains(at, key)
    }
    return found.pop() if len(found) == 1 else None


def _keys_in(place: Symbol) -> Iterator[Symbol]:
    """Both keys of ``host[layer][part]``."""
    while isinstance(place, symbols.Item):
        yield place.at
        place = place.of


def _known_keys(m: Machine, keys: dict[str, frozenset[str]]) -> dict[str, SymV]:
    """Parameters that are keys of what an earlier call had keys of, with the keys that were passed then.

    ``prefetch(layer)``, then ``wait(layer)``. Those of one name come first: ``move(src, dst)`` has two.
    """
    found: dict[str, SymV] = {}
    for by_name in (True, False):
        for name, attributes in keys.items():
            for (attribute, other), value in m.keys.items():
                fits = attribute in attributes and (other == name or not by_name)
                is_free = value not in found.values() and not isinstance(m.roles.get(value.symbol), BufferV)
                if fits and is_free and name not in found:
                    found[name] = value
    return found


def _is_plain(value: ir.Expr) -> bool:
    """A number or a text, and no flag."""
    return (
        isinstance(value, ir.Const)
        and isinstance(value.value, (int, str, float))
        and not isinstance(value.value, bool)
    )


def _called_by_name(m: Machine, default: ir.Expr, module: str) -> Value | None:
    """A class or a function that is the default of a parameter: ``optimizer_class=torch.optim.AdamW``."""
    found = m.project.module(module)
    value = modules.at_import(m, found, default) if found is not None else None
    return value if isinstance(value, (ApiV, ClassV, FuncV)) else None


def _usual(m: Machine, name: str, default: default_arms.Plain, number: int, scope: Scope | None) -> Value:
    """The default of a parameter; another value on another path, if code with streams is left out by it."""
    usual = ConstV(default)
    if scope is None or not default_arms.leave_out(m.project, scope, name, default):
        return usual
    key = symbols.call("default", symbols.Name(scope.name), symbols.constant(name))
    if m.oracle.choose(key, f"{name} == {default!r}", known=0) == 0:
        return usual
    other = arguments.unknown(number, name)
    m.oracle.answer(symbols.Compare("==", other.symbol, symbol_of(usual)), 1)
    return other


def _outside_value(m: Machine, param: ir.Param, number: int, module: str, scope: Scope | None) -> Value:
    if (known := _given_back(m, number, param.name)) is not None:
        return known
    match param.default:
        case ir.Const(value=int() | float() | str() as usual) if _is_plain(param.default):
            return _usual(m, param.name, usual, number, scope)
        case ir.Seq(kind="tuple", items=items) if items and all(map(_is_plain, items)):
            # A pair of numbers is as plain as a number: the betas of an optimizer.
            return TupleV(tuple(ConstV(item.value) for item in items if isinstance(item, ir.Const)))
        case ir.Name() | ir.Attr() as named if (made := _called_by_name(m, named, module)) is not None:
            return made
        case _:
            unknown = arguments.unknown(number, param.name)
            if scope is not None:
                m.parameters[unknown.symbol] = (scope, param.name)
            return tensors.as_buffer(m, unknown) if _is_tensor(m, param, module) else unknown
