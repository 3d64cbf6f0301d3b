"""Functions of the analyzed tree: followed with their arguments bound, or left unfollowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import classes, decorators, kinds, known, modules, patches, predicates, touching
from streamlint.interp.library import annotated, arrays, escape, monitors, named_host, tensors, unresolved
from streamlint.interp.python import caching, going_on, joined_lists, keywords, pipelines
from streamlint.interp.state import arguments, callers, gradients, names, reach, results, symbols
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.ends import Returned
from streamlint.interp.state.frames import Driven, Frame
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Env,
    EventV,
    FuncV,
    GeneratorV,
    GraphV,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models.schema import Lib
from streamlint.models.torch import GIVES_STORAGE
from streamlint.trace import Barrier, Doubt, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.source import Span


_ORDERS = (StreamV, EventV, GraphV)
DEEP = 4
"""Below this many calls only functions that touch streams are followed, short ones without branches, and
those that get at memory which another stream uses.

A test that guards a ``raise`` is no branch."""
SHORT = 12
"""Lines of these."""
DEEPEST = 10
"""Calls down to which these are."""
LONG = 80
"""Longer functions that do not touch streams are not followed by callees at all."""


def call_function(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    if span in m.spread:
        kwargs = {**kwargs, callers.REST: m.spread[span]}
    kernel_of = decorators.kernel_of(m.project, func.function)
    if kernel_of is Lib.CUPY:
        return arrays.rawkernel_call(m, func, args, kwargs, span)
    if kernel_of is not None:
        return unresolved.launch_kernel(m, func.name, args, kwargs, span, kernel_of)
    if (pipeline := pipelines.made(m, func, args, kwargs, span)) is not None:
        return pipeline
    if decorators.is_foreign(m.project, func.function) or decorators.dispatches(func.function):
        return _not_followed(m, func, args, kwargs, span)
    depth = len(m.calls)
    if isinstance(func.function, ir.FunctionDecl) and patches.gives_current_stream(m.project, func.function):
        return m.python.call(m, ApiV("torch.cuda.current_stream"), args, kwargs, span)
    if (wrapper := _wrapper(m, func, span)) is not None:
        return m.python.call(
            m, wrapper, [*([] if func.receiver is None else [func.receiver]), *args], kwargs, span
        )
    # The first frame is that of the caller outside, and is called as its entry is.
    active = [frame.function for frame in m.frames[1:]].count(func.name)
    if active >= _most_active(func) or _is_remote(m, func, [*args, *kwargs.values()]):
        return _cut(m, func, args, kwargs, span)
    if depth >= LIMITS.call_depth:
        m.project.budgets.left_out.add("depth of calls")
        return _cut(m, func, args, kwargs, span)
    try:
        function, unread = loaded(func, outside=not depth)
    except ir.LoweringError as error:
        m.cut.append(error.message)
        if touching.may_touch(m.project, func.function):
            escape.barrier(m, escape.all_streams(m), span, func.name)
        return _not_followed(m, func, args, kwargs, span)
    if unread and not function.is_generator:
        run_function(m, func, function, args, kwargs, span)
        m.stop(unread)
    if classes.is_abstract(function):
        if function.name in escape.WAITING:
            escape.barrier(m, escape.all_streams(m), span, func.name)
        return _not_followed(m, func, args, kwargs, span)
    if function.is_generator:
        return GeneratorV(func, tuple(args), kwargs, context=decorators.makes_context(function))
    return caching.remembered(
        m, func, args, kwargs, lambda: run_function(m, func, function, args, kwargs, span)
    )


def _most_active(func: FuncV) -> int:
    """How often a function may call itself: a short one may walk a list of tables of tensors."""
    decl = func.function
    is_short = isinstance(decl, ir.FunctionDecl) and decl.lines - 1 <= 2 * SHORT
    return 3 if is_short else 2


def loaded(func: FuncV, *, outside: bool) -> tuple[ir.Function, str]:
    """A function's code. Of one too large that outside code calls the beginning, and why that is not all."""
    if not isinstance(func.function, ir.FunctionDecl):
        return func.function, ""
    return func.function.beginning() if outside else (func.function.load(), "")


def _wrapper(m: Machine, func: FuncV, span: Span) -> FuncV | None:
    """What decorators of the tree that touch streams make of a function: ``@on_side_stream``.

    Those of other packages are taken to change nothing.
    """
    if func.bare or not isinstance(func.function, ir.FunctionDecl) or not func.function.decorators:
        return None
    module = m.project.module(func.function.module)
    if module is None or not any(_orders(m, module, text) for text in func.function.decorators):
        return None
    function = ir.code_of(func.function)
    if function is None:
        return None
    made = FuncV(func.function, func.closure, bare=True)
    for decorator in reversed(function.decorators):
        if not _orders(m, module, ir.dotted(decorator)):
            continue
        # @on_side_stream, or @on_stream("copy"), which gives the decorator.
        found = modules.at_module_level(m, module, decorator)
        result = m.python.call(m, found, [made], {}, span) if isinstance(found, FuncV) else None
        made = result if isinstance(result, FuncV) else made
    return None if made.bare else made


def _orders(m: Machine, module: ir.Module, name: str) -> bool:
    found = m.project.member(module.name, name) if name.isidentifier() else None
    return isinstance(found, FuncV) and touching.by_others(m.project, found.function)


def uncalled(m: Machine) -> dict[str, FuncV]:
    """Functions that the path has defined inside of others, and has not called."""
    return {
        name: made for name, made in m.closures.items() if name not in m.covered and runs_on_host(m, made)
    }


def runs_on_host(m: Machine, func: FuncV) -> bool:
    """Whether a function is code of the host: no kernel, and none that a compiler takes to the device."""
    return decorators.kernel_of(m.project, func.function) is None and not decorators.is_foreign(
        m.project, func.function
    )


def _is_remote(m: Machine, func: FuncV, given: list[Value]) -> bool:
    """Code that can hardly matter: far from the entry or long, without a word about streams, and given none.

    ``def step(x, lane): return self.last.step(x, lane)`` hands on what matters, however deep that goes. What
    a thread runs is near, wherever it is started, and however long: it works on a stream of its own.
    """
    depth = len(m.frames) - m.thread_from if m.thread_from else len(m.calls)
    if depth > 1 and any(_matters(m, names.settle(m, value)) for value in given):
        return False
    if touching.may_touch(m.project, func.function) or not isinstance(func.function, ir.FunctionDecl):
        return False
    if touching.makes_holder(m.project, func.function):
        return False
    lines = func.function.lines - 1
    if depth < DEEP:
        return depth > 1 and lines > LONG
    if depth >= DEEPEST or lines > LONG:
        return True
    # def free(x): if x.untyped_storage().size() > 0: x.untyped_storage().resize_(0)
    does_more = not GIVES_STORAGE.isdisjoint(func.function.names) or _keeps_for_all(m.project, func.function)
    unlikely = lines > SHORT or (not does_more and _decides(m.project, func.function))
    return unlikely and not _gets_at_used(m, func, given)


def _gets_at_used(m: Machine, func: FuncV, given: list[Value]) -> bool:
    """Whether a call gets at memory that another stream than its own uses.

    ``def page(self, i): return self.pages[i] if self.open else None``, of a pool that is being filled aside.
    """
    if not m.life.candidates:
        return False
    values = given if func.receiver is None else [func.receiver, *given]
    return bool(reach.reached(m, values, m.life.candidates))


def _matters(m: Machine, value: Value) -> bool:
    """A stream, or a function that works with some: ``map_tensors(batch, copy_aside)``."""
    if isinstance(value, FuncV):
        return touching.may_touch(m.project, value.function)
    return isinstance(value, _ORDERS)


def _keeps_for_all(project: Project, decl: ir.FunctionDecl) -> bool:
    """Whether a function keeps something in a variable of its module: a page that all callers get.

    ``def workspace(device, n): if device not in _PAGES: _PAGES[device] = torch.empty(n, device=device)``
    """
    module = project.module(decl.module)
    return module is not None and any(name in module.assigned for name, _ in decl.given if name)


_BRANCHING: Kept[ir.FunctionDecl, bool] = Kept()


def _decides(project: Project, decl: ir.FunctionDecl) -> bool:
    """Whether a function has branches between which it works: each is a path that others have to wait for."""
    return project.once(_BRANCHING, decl, lambda: _has_branches(decl))


def _has_branches(decl: ir.FunctionDecl) -> bool:
    function = ir.code_of(decl)
    if function is None:
        return True
    return any(map(_is_branch, ir.walk(function.body))) and not predicates.only_asks(function)


def _is_branch(node: object) -> bool:
    """Whether a statement makes paths; no path goes into an arm that raises: ``if need > n: raise ...``."""
    match node:
        case ir.If(body=(*_, ir.Raise())) | ir.If(orelse=(*_, ir.Raise())):
            return False
        case ir.If() | ir.While():
            return True
        case _:
            return False


def _cut(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """A call of code in sight that is not run, for its cost: what it does with its arguments is a guess.

    ``tensors = cls.collect(optimizer)``, four calls down: it may compute them, or only put them into a list.
    """
    before = len(m.ops)
    result = _not_followed(m, func, args, kwargs, span)
    told = _is_told_by_text(m, func, [*args, *kwargs.values()])
    for number, op in enumerate(m.ops[before:], before):
        if told or not isinstance(op, Barrier):
            m.ops[number] = replace(op, doubts=op.doubts | {Doubt.BUDGET})
    return result


def _is_told_by_text(m: Machine, func: FuncV, given: list[Value]) -> bool:
    """Whether a call that is not run waits for no other streams than those that its function names.

    ``return self.next_batch()`` in ``next_batch()`` itself, and not ``drain(lanes[1:])`` in ``drain(lanes)``.
    """
    is_running = any(frame.function == func.name for frame in m.frames)
    return is_running and not escape.carries_order(m, given)


def _not_followed(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    if touching.may_touch(m.project, func.function):
        escape.barrier(m, list(m.current.values()), span, func.name)
    bound = [func.receiver, *args] if func.receiver is not None else args
    result = unresolved.opaque(m, func.name, bound, kwargs, span)
    module = m.project.module(func.function.module)
    if module is not None and isinstance(func.function, ir.FunctionDecl):
        owner = classes.class_of(m, func, args)
        if known.facts_of(m.project).of_return(module, func.function, owner).kind is kinds.Kind.PLAIN:
            annotated.is_plain(m, result)
    return result


def run_function(
    m: Machine,
    func: FuncV,
    function: ir.Function,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    on_yield: Callable[[Value], Value] | None = None,
) -> Value:
    """Runs a body with its arguments bound."""
    frame = activation(m, func, function, args, kwargs, span, on_yield)
    m.frames.append(frame)
    m.calls.append(span)
    m.covered.add(f"{function.module}:{function.qualname}")
    _note_driven(m, func, frame)
    frame.begun, objects = len(m.ops), len(m.heap)
    try:
        m.python.run_block(m, function.body)
    except Returned as result:
        annotated.says(m, function.module, function.returns, result.value)
        return results.returned(m, result.value, objects)
    finally:
        m.calls.pop()
        m.frames.pop()
        monitors.drop_aside(m, frame.env.names.values(), span)
    # What the functions that it called have returned, it does not hand out.
    m.last_return = None
    return NONE


def activation(
    m: Machine,
    func: FuncV,
    function: ir.Function,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    on_yield: Callable[[Value], Value] | None = None,
) -> Frame:
    """What a function's body runs in: its variables, with the arguments bound."""
    m.activations += 1
    env = Env({}, function.module, func.closure, m.activations)
    touched = touching.may_touch(m.project, func.function)
    owner = classes.class_of(m, func, args)
    frame = Frame(env, func.name, touched, on_yield, code=function, cls=owner, receiver=func.receiver)
    frame.leads = not touched and touching.uses_touching(m.project, func.function)
    frame.follows = not touched or touching.follows(m.project, func.function)
    frame.wanted = _wanted_of(m.frame)
    frame.gives = going_on.is_needed(m.frame)
    frame.gradless = m.frame.gradless or gradients.is_gradless(func.function)
    args = _as_tensors(m, args, span)
    given = [func.receiver, *args] if func.receiver is not None else args
    bind(m, env, func, function, given, kwargs)
    named_host.mark(m, env, function, span, bound=func.receiver is not None)
    return frame


def _as_tensors(m: Machine, args: list[Value], span: Span) -> list[Value]:
    """The arguments, where variables of the caller have tensors by these, and not by what memory they have.

    ``def put(param, page): param.data = page.cuda()``, then ``param.data.record_stream(current)``: the next
    call of ``put(param, page)`` gives ``param`` other memory, and means that behind it.
    """
    call, held = m.frame.calling, m.frame.env.names
    if not m.life.given_to or call is None or call.span != span:
        return args
    tensors = list(args)
    for number, given in enumerate(call.args[: len(args)]):
        if given.star:
            break
        if given.keyword is None and isinstance(given.value, ir.Name):
            value = held.get(given.value.id)
            if isinstance(value, SymV) and value.symbol in m.life.given_to:
                tensors[number] = value
    return tensors


def _wanted_of(caller: Frame) -> bool | None:
    """The answer that comes first where the call is all of a test: ``if self._is_skipped(x): return``."""
    asked = caller.question
    return asked[1] if asked is not None and asked[0] is caller.calling else None


def _note_driven(m: Machine, func: FuncV, frame: Frame) -> None:
    """Keeps which methods of its own objects a program calls: it shows in which order they are meant.

    Of an object that it is given, only a loop does: ``for _ in range(n): halo.start(); halo.wait()``. What
    unseen code calls of what it was handed out shows nothing.
    """
    receiver = func.receiver
    if not isinstance(receiver, HeapV) or (cls := m.heap[receiver.id].cls) is None:
        return
    from_outside = m.call in m.targets and m.targets[m.call].called is func.function
    if from_outside and len(m.frames) > 1 and frame is m.frames[1]:
        return
    endless = not all(_is_or_holds(item, receiver) for item in m.walked)
    if receiver.id in m.constructed or (endless and receiver.id in m.given_objects):
        step = any(frame.receiver == receiver for frame in m.frames[:-1])
        shown = frozenset(name for name, value in frame.env.names.items() if _is_own_memory(m, value))
        key, name = (receiver.id, func.function.name), func.function.name
        m.calls_of[key] = times = m.calls_of.get(key, 0) + 1
        of, kept = f"{cls.module}:{cls.qualname}", m.call in m.targets and _is_kept(m, receiver)
        m.driven.add(Driven(of, name, endless, step, receiver.id, times, shown, kept))


def _is_kept(m: Machine, receiver: HeapV) -> bool:
    """Whether a variable of a module holds an object, directly or in a table: ``_POOLS[device] = pool``."""
    held = [m.heap[value.id] for value in m.globals.values() if isinstance(value, HeapV)]
    return receiver in m.globals.values() or any(
        receiver in thing.items or receiver in thing.entries.values() for thing in held
    )


def _is_own_memory(m: Machine, value: Value) -> bool:
    value = names.settle(m, value)
    return isinstance(value, BufferV) and m.buffers[value.id].origin is not Origin.ARGUMENT


def _is_or_holds(item: Value, receiver: HeapV) -> bool:
    """``halo`` of ``for halo in halos``, or of ``for rank, halo in enumerate(halos)``."""
    return item == receiver or (
        isinstance(item, TupleV) and any(_is_or_holds(part, receiver) for part in item.items)
    )


def bind(
    m: Machine, env: Env, func: FuncV, function: ir.Function, args: list[Value], kwargs: dict[str, Value]
) -> None:
    """Binds parameters; a missing one takes its default, evaluated where the function was defined."""
    rest = list(args)
    named = dict(kwargs)
    for param in function.params:
        match param.kind:
            case "*":
                env.names[param.name] = _collected(m, rest, function.span)
                rest = []
            case "**":
                env.names[param.name] = keywords.collected(m, named.pop(callers.REST, None), named)
            case _ if rest and param.kind == "positional" and not arguments.is_rest(rest[0]):
                env.names[param.name] = rest.pop(0)
            case _ if param.name in named:
                env.names[param.name] = named.pop(param.name)
            case _ if (param.default is None or keywords.is_in(m, named.get(callers.REST), param.name)) and (
                given := keywords.entry(m, named.get(callers.REST), param.name, function.span)
            ) is not None:
                env.names[param.name] = given
            case _:
                env.names[param.name] = _default(m, func, function, param)
    told = known.facts_of(m.project).of_parameters(function)
    for name in told.plain:
        annotated.is_plain(m, names.settle(m, env.names[name]))
    for name in told.tensors:
        annotated.is_tensor(m, names.settle(m, env.names[name]))
    for name in told.on_host:
        annotated.is_host_array(m, names.settle(m, env.names[name]))
    for name, fact in told.memory:
        value = names.settle(m, env.names[name])
        if isinstance(value, SymV):
            value = env.names[name] = tensors.as_buffer(m, value, kind=fact.by)
        if isinstance(value, BufferV):
            m.is_memory(value, fact.by)
            m.lives(value, fact.space, fact.residence)


def _collected(m: Machine, given: list[Value], span: Span) -> Value:
    """What ``*cols`` takes: where ``wait_for(stream, *cols)`` was called, the elements of that list."""
    parts: list[tuple[Value, bool]] = []
    for value in given:
        match value:
            case SymV(symbols.Spread(), (HeapV() as spread, *_)) if m.heap[spread.id].shape is Shape.LIST:
                parts.append((spread, True))
            case _:
                parts.append((value, False))
    return joined_lists.displayed(m, "tuple", parts, span)


def _default(m: Machine, func: FuncV, function: ir.Function, param: ir.Param) -> Value:
    if param.default is None:
        return SymV(symbols.Local(function.qualname, param.name))
    module = m.project.module(function.module)
    if isinstance(param.default, ir.Const):
        return ConstV(None) if param.default.value is ... else ConstV(param.default.value)
    if func.closure is not None and param.name in func.closure.names:
        return func.closure.names[param.name]
    value = modules.at_import(m, module, param.default) if module is not None else None
    return value if value is not None else SymV(symbols.Local(function.qualname, param.name))


def run_generator(m: Machine, value: GeneratorV, at_yield: Callable[[Value], Value], span: Span) -> Value:
    """Runs a generator to its end; gives what it returns there."""
    func = value.func
    try:
        function, unread = loaded(func, outside=not m.calls)
    except ir.LoweringError:
        return NONE
    result = run_function(m, func, function, list(value.args), value.kwargs, span, at_yield)
    if unread:
        m.stop(unread)
    return result
