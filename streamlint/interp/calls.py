"""Calls: who is called, and what happens when that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp import (
    arrays,
    builtin,
    caching,
    captures,
    containers,
    contexts,
    effects,
    escape,
    evidence,
    expr,
    kernels,
    names,
    objects,
    operators,
    stmt,
    tensors,
    threads,
    unresolved,
)
from streamlint.interp.machine import MAX_DEPTH, Frame, Machine, Returned
from streamlint.interp.values import (
    NONE,
    ApiV,
    BufferV,
    ClassV,
    ConstV,
    ContextV,
    DeviceV,
    Env,
    EventV,
    Flavor,
    FuncV,
    GeneratorV,
    HeapV,
    MethodV,
    ModuleV,
    PartialV,
    QueryV,
    Shape,
    SliceV,
    StreamV,
    SymV,
    TupleV,
    Value,
    key_of,
)
from streamlint.models import torch as torch_model
from streamlint.models.schema import Lib, Role
from streamlint.trace import Origin, Space, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.source import Span

DEEP = 4
"""Below this many calls only functions that touch streams are followed."""
LONG = 80
"""Longer functions that do not touch streams are not followed by callees at all."""


def evaluate_call(m: Machine, e: ir.Call) -> Value:
    if isinstance(e.func, ir.Name) and e.func.id == "super" and not e.args:
        return SymV("super()")
    if _is_super_call(e):
        return _super_call(m, e)
    func = names.settle(m, expr.evaluate(m, e.func))
    args, kwargs = arguments(m, e)
    return call(m, func, args, kwargs, e.span)


def arguments(m: Machine, e: ir.Call) -> tuple[list[Value], dict[str, Value]]:
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for argument in e.args:
        value = expr.evaluate(m, argument.value)
        if argument.star == "*":
            listed = containers.listed(m, value)
            args.extend(listed if listed is not None else [SymV(f"*{key_of(value)}")])
        elif argument.star == "**":
            if isinstance(value, HeapV):
                held = m.heap[value.id]
                kwargs.update(
                    {str(k.value): held.attrs[key] for key, k in held.keys.items() if isinstance(k, ConstV)}
                )
            if not isinstance(value, HeapV) or m.heap[value.id].open:
                m.spread.add(e.span)
        elif argument.keyword is not None:
            kwargs[argument.keyword] = value
        else:
            args.append(value)
    return args, kwargs


def _is_super_call(e: ir.Call) -> bool:
    match e.func:
        case ir.Attr(value=ir.Call(func=ir.Name(id="super"))):
            return True
        case _:
            return False


def _super_call(m: Machine, e: ir.Call) -> Value:
    """``super().method(...)``: the next class of the analyzed tree that has it; outside bases do nothing."""
    args, kwargs = arguments(m, e)
    frame = m.frame
    receiver = _self_of(frame)
    if frame.cls is None or receiver is None or not isinstance(e.func, ir.Attr):
        return NONE
    for ancestor in m.project.ancestors(frame.cls)[0][1:]:
        if e.func.name in ancestor.methods:
            return call(m, FuncV(ancestor.methods[e.func.name], None, receiver), args, kwargs, e.span)
    if e.func.name != "__init__":
        return unresolved.opaque(m, f"super().{e.func.name}", [receiver, *args], kwargs, e.span)
    return NONE


def _self_of(frame: Frame) -> Value | None:
    return next(iter(frame.env.names.values()), None)


def call(m: Machine, func: Value, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """Calls a value."""
    func = names.settle(m, func)
    match func:
        case FuncV():
            return call_function(m, func, args, kwargs, span)
        case ClassV(decl):
            return objects.instantiate(m, decl, args, kwargs, span)
        case ApiV(path):
            return call_api(m, path, args, kwargs, span)
        case MethodV(receiver, name):
            return call_method(m, receiver, name, args, kwargs, span)
        case PartialV():
            return call(m, func.func, [*func.args, *args], {**func.kwargs, **kwargs}, span)
        case HeapV() if m.heap[func.id].shape is Shape.INSTANCE:
            for name in ("__call__", "forward"):
                method = objects.method(m, func, name)
                if method is not None:
                    return call(m, method, args, kwargs, span)
            return unresolved.opaque(m, m.heap[func.id].key, [func, *args], kwargs, span)
        case SymV(key) if key.startswith("(ctypes.") and key.endswith(")"):
            # (ctypes.c_int32 * 1)(): an array of the host
            made = m.new_buffer("", Space.PAGEABLE, Origin.ALLOCATED, Flavor.ARRAY, span)
            m.flat.add(made.id)
            return made
        case SymV(key, holds):
            if key.rpartition(".")[2] in torch_model.HANDLE_METHODS or key.rpartition(".")[2] == "stream":
                return _handle_call(m, func, args, kwargs, span)
            head, _, last = key.rpartition(".")
            if head and "(" not in last:
                return call_method(m, SymV(head, holds), last, args, kwargs, span)
            return unresolved.opaque(m, key, args, kwargs, span, holds=holds)
        case BufferV(region=(*owner, Symbol(part))) if part.startswith("."):
            # A method of an unresolved result: symm_mem.get_buffer(...)
            return call_method(m, BufferV(func.id, tuple(owner), func.flavor), part[1:], args, kwargs, span)
        case BufferV():
            return unresolved.opaque(m, m.buffers[func.id].name or "call", [func, *args], kwargs, span)
        case (
            ConstV()
            | StreamV()
            | EventV()
            | DeviceV()
            | ModuleV()
            | GeneratorV()
            | TupleV()
            | ContextV()
            | QueryV()
            | SliceV()
            | HeapV()
        ):
            return unresolved.opaque(m, key_of(func), args, kwargs, span)


# ----------------------------------------------------------------------------- functions of the tree


def call_function(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    kernel_of = kernels.library(m, func)
    if kernel_of is Lib.CUPY:
        return arrays.rawkernel_call(m, func, args, kwargs, span)
    if kernel_of is not None:
        return tensors.launch_kernel(m, func.name, args, kwargs, span, kernel_of)
    if func.function.name in torch_model.MODULE_MAKERS:
        return ApiV("torch.cuda")
    if func.function.name == "current_stream" and func.receiver is None:
        # A project's cached variant of torch.cuda.current_stream, kept up to date by patching set_stream.
        return call_api(m, "torch.cuda.current_stream", args, kwargs, span)
    depth = len(m.calls)
    active = sum(1 for frame in m.frames if frame.function == func.name)
    if depth >= MAX_DEPTH or active > 1 or _is_remote(func, depth):
        return _not_followed(m, func, args, kwargs, span)
    try:
        function = func.function.load() if isinstance(func.function, ir.FunctionDecl) else func.function
    except ir.LoweringError:
        return _not_followed(m, func, args, kwargs, span)
    if function.is_generator:
        return GeneratorV(func, tuple(args), kwargs, context=_is_context_manager(function))
    return caching.remembered(
        m, func, args, kwargs, lambda: run_function(m, func, function, args, kwargs, span)
    )


def _is_remote(func: FuncV, depth: int) -> bool:
    """Code that can hardly matter: far from the entry or long, and without a word about streams."""
    if stmt.function_touches(func.function) or not isinstance(func.function, ir.FunctionDecl):
        return False
    return depth >= DEEP or (depth > 1 and func.function.end_line - func.function.span.line > LONG)


def _not_followed(m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    if stmt.function_touches(func.function):
        escape.barrier(m, list(m.current.values()), span, func.name)
    bound = [func.receiver, *args] if func.receiver is not None else args
    return unresolved.opaque(m, func.name, bound, kwargs, span)


def decide_text(e: ir.Expr) -> str:
    match e:
        case ir.Name(id=name):
            return name
        case ir.Attr(value=value, name=name):
            return f"{decide_text(value)}.{name}"
        case ir.Call(func=func):
            return decide_text(func)
        case _:
            return "?"


def _is_context_manager(function: ir.Function) -> bool:
    return any(
        decide_text(d).rpartition(".")[2] in ("contextmanager", "asynccontextmanager")
        for d in function.decorators
    )


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
    env = Env({}, function.module, func.closure)
    touched = stmt.function_touches(func.function)
    owner = _class_of(m, func)
    frame = Frame(env, func.name, touched, on_yield, cls=owner)
    given = [func.receiver, *args] if func.receiver is not None else args
    bind(m, env, function, given, kwargs)
    m.frames.append(frame)
    m.calls.append(span)
    m.covered.add(f"{function.module}:{function.qualname}")
    try:
        stmt.run_block(m, function.body)
    except Returned as result:
        return result.value
    finally:
        m.calls.pop()
        m.frames.pop()
    return NONE


def _class_of(m: Machine, func: FuncV) -> ir.ClassDecl | None:
    """The class whose body holds the function: where ``super()`` starts."""
    if func.receiver is None:
        return None
    cls = m.heap[func.receiver.id].cls if isinstance(func.receiver, HeapV) else None
    if isinstance(func.receiver, ClassV):
        cls = func.receiver.decl
    if cls is None:
        return None
    for ancestor in m.project.ancestors(cls)[0]:
        if ancestor.methods.get(func.function.name) is func.function:
            return ancestor
    return cls


def bind(m: Machine, env: Env, function: ir.Function, args: list[Value], kwargs: dict[str, Value]) -> None:
    """Binds parameters; a missing one takes its default, evaluated where the function was defined."""
    rest = list(args)
    named = dict(kwargs)
    for param in function.params:
        match param.kind:
            case "*":
                env.names[param.name] = TupleV(tuple(rest))
                rest = []
            case "**":
                made = m.new_object(Shape.DICT)
                for key, value in named.items():
                    containers.put(m, m.heap[made.id], ConstV(key), value)
                env.names[param.name] = made
            case _ if (
                rest
                and param.kind == "positional"
                and not (isinstance(rest[0], SymV) and rest[0].key.startswith("*"))
            ):
                env.names[param.name] = rest.pop(0)
            case _ if param.name in named:
                env.names[param.name] = named.pop(param.name)
            case _:
                env.names[param.name] = _default(m, function, param)
    for name in evidence.tensor_names(m.project, function) & env.names.keys():
        value = names.settle(m, env.names[name])
        if isinstance(value, SymV):
            env.names[name] = tensors.as_buffer(m, value)


def _default(m: Machine, function: ir.Function, param: ir.Param) -> Value:
    if param.default is None:
        return SymV(f"{function.qualname}:{param.name}")
    module = m.project.module(function.module)
    if isinstance(param.default, ir.Const):
        return ConstV(None) if param.default.value is ... else ConstV(param.default.value)
    value = stmt.at_module_level(m, module, param.default) if module is not None else None
    return value if value is not None else SymV(f"{function.qualname}:{param.name}")


def run_generator(m: Machine, value: GeneratorV, at_yield: Callable[[Value], Value], span: Span) -> None:
    func = value.func
    try:
        function = func.function.load() if isinstance(func.function, ir.FunctionDecl) else func.function
    except ir.LoweringError:
        return
    run_function(m, func, function, list(value.args), value.kwargs, span, at_yield)


# ----------------------------------------------------------------------------- outside names and methods


def call_api(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    last = path.rpartition(".")[2]
    if last in torch_model.MODULE_MAKERS:
        return ApiV("torch.cuda")
    if path == arrays.LAUNCH:
        return arrays.launch(m, args[0], args[1], [*args[2:], *kwargs.values()], span)
    row = models.find_function(path)
    if row is not None and path != "torch.device":
        framework, api = row
        return effects.apply(m, framework, api, None, args, kwargs, span)
    made = builtin.call(m, path, args, kwargs, span)
    if made is not None:
        return made
    if path.startswith(("torch.", "torch_npu.")):
        return operators.torch_function(m, path, args, kwargs, span)
    if path.startswith(("cupy.", "cupyx.")):
        return arrays.cupy_function(m, path, args, kwargs, span)
    if path.startswith("numba.cuda."):
        made = arrays.numba_function(m, path, args, span)
        if made is not None:
            return made
    if last in ("from_address", "from_buffer"):
        return builtin.make_view(m, "numpy.frombuffer", args, kwargs, span)
    if last.startswith("cu") and path.startswith("cuda."):
        return effects.unknown_runtime_call(m, path, args, span)
    return unresolved.opaque(m, path, args, kwargs, span)


def call_method(
    m: Machine, receiver: Value, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    receiver = names.settle(m, receiver)
    match receiver:
        case StreamV(_, lib):
            row = models.find_method(Role.STREAM, lib, name) or models.find_method(Role.STREAM, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, name, [receiver, *args], kwargs, span)
        case EventV(_, lib):
            row = models.find_method(Role.EVENT, lib, name) or models.find_method(Role.EVENT, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, name, [receiver, *args], kwargs, span)
        case BufferV(flavor=Flavor.OPAQUE | Flavor.TORCH) if name in WAITING or name in STREAM_ONLY:
            # The unresolved result was a future, an event or a stream.
            return symbolic_method(m, SymV(key_of(receiver), (receiver,)), name, args, kwargs, span)
        case BufferV():
            return tensors.method(m, receiver, name, args, kwargs, span)
        case DeviceV():
            row = models.find_method(Role.DEVICE, None, name)
            if row is not None:
                return effects.apply(m, row[0], row[1], receiver, args, kwargs, span)
            return unresolved.opaque(m, f"{key_of(receiver)}.{name}", args, kwargs, span)
        case PartialV(func=ApiV(path)) if models.find_function(f"{path}.{name}") is not None:
            # module.get_function("name"), where the module keeps its source.
            return call_api(m, f"{path}.{name}", args, {**receiver.kwargs, **kwargs}, span)
        case FuncV() if (kernel := arrays.kernel_method(m, receiver, name, args, kwargs)) is not None:
            return kernel
        case HeapV():
            held = m.heap[receiver.id]
            if held.shape is not Shape.INSTANCE:
                found = containers.method(m, receiver, name, args, kwargs, span)
                return (
                    found
                    if found is not None
                    else unresolved.opaque(m, name, [receiver, *args], kwargs, span)
                )
            if threads.is_thread(m, receiver):
                return threads.method(m, receiver, name, span)
            method = objects.method(m, receiver, name)
            if method is not None:
                return call(m, method, args, kwargs, span)
            run = objects.method(m, receiver, "run") if name == "start" else None
            if run is not None:
                # A subclass of Thread.
                return threads.submit(m, [run], {}, span)
            return unresolved.opaque(m, f"{held.key}.{name}", [receiver, *args], kwargs, span)
        case SymV():
            return symbolic_method(m, receiver, name, args, kwargs, span)
        case ConstV(str()):
            return builtin.string_method(m, receiver, name, args, span)
        case FuncV() if name in ("remote", "apply", "delay"):
            return call(m, receiver, args, kwargs, span)
        case ClassV(decl) if name == "apply":
            # autograd.Function.apply(...) runs forward.
            forward = decl.methods.get("forward")
            return (
                call(m, FuncV(forward, None, m.fresh("ctx", span)), args, kwargs, span)
                if forward
                else unresolved.opaque(m, name, args, kwargs, span)
            )
        case _:
            return unresolved.opaque(m, f"{key_of(receiver)}.{name}", args, kwargs, span)


STREAM_ONLY = frozenset({"wait_stream", "wait_event", "record_event"})
EVENT_ONLY = frozenset({"elapsed_time", "record"})
WAITING = frozenset(
    {"synchronize", "wait", "result", "join", "get", "block_until_ready", "sync", "wait_and_get"}
)


def symbolic_method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """A method of an unknown value: names that only one kind of object has show what it is."""
    told = models.find_telling(name, kwargs)
    if told is not None:
        owner = _as_role(m, receiver, told[0], told[1].lib, span)
        return effects.apply(m, told[1], told[2], owner, args, kwargs, span)
    if name in torch_model.HANDLE_METHODS or (
        name == "stream" and args and names.is_stream_like(names.settle(m, args[0]))
    ):
        return _handle_call(m, SymV(f"{receiver.key}.{name}"), args, kwargs, span)
    if name in ("from_address", "from_buffer"):
        return builtin.make_view(m, "numpy.frombuffer", args, kwargs, span)
    if name == "submit" and args and threads.runs_code(names.settle(m, args[0])):
        return threads.submit(m, args, kwargs, span)
    if name in ("capture_begin", "capture_end"):
        return captures.by_hand(m, args, kwargs, span, begins=name == "capture_begin")
    if name in STREAM_ONLY:
        lib = arrays.guessed_library(m)
        return call_method(m, contexts.as_stream(m, receiver, span, lib), name, args, kwargs, span)
    if name == "record" and _named_like(receiver, "stream"):
        # CuPy and cuda.core: stream.record(event)
        return call_method(m, contexts.as_stream(m, receiver, span, None), name, args, kwargs, span)
    if name in EVENT_ONLY and (not args or names.is_stream_like(names.settle(m, args[0]))):
        return call_method(m, effects.as_event(m, receiver, span), name, args, kwargs, span)
    if name in ("synchronize", "wait", "query", "sync") and _named_like(receiver, "stream"):
        return call_method(m, contexts.as_stream(m, receiver, span), name, args, kwargs, span)
    if name in ("synchronize", "wait", "query", "sync") and _named_like(receiver, "event"):
        return call_method(m, effects.as_event(m, receiver, span), name, args, kwargs, span)
    if name in WAITING:
        # An unknown thing is waited for: it may be any event or stream seen so far.
        escape.barrier(m, escape.all_streams(m), span, f"{receiver.key}.{name}")
        return m.fresh(f"{receiver.key}.{name}()", span, receiver.holds)
    if tensors.is_tensor_method(name):
        view = tensors.as_buffer(m, receiver)
        return tensors.method(m, view, name, args, kwargs, span)
    return unresolved.opaque(m, f"{receiver.key}.{name}", args, kwargs, span, holds=receiver.holds)


def _as_role(m: Machine, receiver: SymV, role: Role, lib: Lib, span: Span) -> Value:
    """An unknown value as what the name of its method shows that it is, from now on."""
    match role:
        case Role.STREAM:
            return contexts.as_stream(m, receiver, span, lib)
        case Role.EVENT:
            return effects.as_event(m, receiver, span)
        case Role.BUFFER:
            return tensors.as_buffer(m, receiver, arrays.flavor_of(lib, Space.DEVICE))
        case Role.DEVICE:
            device = DeviceV(m.device)
            m.roles[receiver.key] = device
            return device


def _named_like(receiver: SymV, word: str) -> bool:
    return word in receiver.key.rpartition(".")[2].lower()


def _handle_call(m: Machine, func: SymV, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``device_module.current_stream()``: the method's name shows that the receiver is a device module."""
    row = models.find_function(f"torch.cuda.{func.key.rpartition('.')[2]}")
    if row is None:
        return unresolved.opaque(m, func.key, args, kwargs, span)
    return effects.apply(m, row[0], row[1], None, args, kwargs, span)
