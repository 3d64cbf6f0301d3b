"""Modules: what they own, and those that were taken for tensors.

``build()`` is unknown, and ``build().cuda()`` may be either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, known_values, touching
from streamlint.interp.facts.kinds import Kind
from streamlint.interp.library import hooks, module_memory, moved_modules, tensors, unresolved
from streamlint.interp.state import arguments, names, symbols
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Flavor,
    HeapV,
    Shape,
    SymV,
    TupleV,
    Value,
    reading,
    symbol_of,
)
from streamlint.models import torch as model
from streamlint.models import torch_layers
from streamlint.models.classes import TENSORS
from streamlint.models.schema import Lib
from streamlint.trace import WHOLE, Access, Doubt, Evidence, Launch, Mode, Role, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject
    from streamlint.source import Span


_INHERITED = (
    model.MODULE_RETURNS_SELF
    | model.MODULE_HOOKS
    | model.GIVES_OF_MODULE
    | model.MODULE_TREE.keys()
    | {model.MODULE_STATE}
)


def is_module(m: Machine, view: BufferV, method: str) -> bool:
    """Whether what was taken for a tensor is a module, as a method shows that only modules have."""
    if method in model.MODULE_METHODS and _may_be(view):
        m.objects.add(view.id)
    return view.id in m.objects


def is_shown(m: Machine, value: SymV) -> bool:
    """Whether something is a layer, or what an annotation or a method shows: ``model: nn.Module``.

    ``model.eval()`` shows it of the model, of its layers, and of what else a table holds in which it was put.
    """
    if value.computes or is_made(m, value) or known_values.of_value(m, value.symbol).kind is Kind.MODULE:
        return True
    symbol = value.symbol
    while symbol not in m.modules and isinstance(symbol, symbols.Item):
        symbol = symbol.of
    return symbol in m.modules


def is_made(m: Machine, value: SymV) -> bool:
    """Whether the path has called a class of ``torch.nn`` for it."""
    path = m.makers.get(value.symbol, "")
    return path.startswith("torch.nn.") and path not in TENSORS


def shows(m: Machine, value: SymV, method: str) -> None:
    """A method of something unknown is called, which may be one that only modules have."""
    moves = method in model.MOVES_MODULE and m.frame.calling is not None and m.frame.calling is m.frame.unused
    # block.to("cuda") as a statement: what moves a tensor gives another one, which somebody wants.
    if moves or method in model.ONLY_MODULES_HAVE:
        m.modules.add(value.symbol)


def gives_itself(
    m: Machine, value: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> SymV:
    """``module.eval()``, ``module.to("cuda")`` of one that is not in sight."""
    moved_modules.move(m, value.symbol, name, args, kwargs, span, layer=is_layer(value))
    return value


def is_given(m: Machine, value: SymV, args: list[Value]) -> None:
    """A module is called: what it is given first is a tensor, as far as anybody can see."""
    if not args or isinstance(args[0], ConstV):
        return
    match value.symbol:
        case symbols.Item(of) if m.makers.get(of) in model.MODULE_CONTAINERS:
            shown = True
        case _:
            shown = is_shown(m, value)
    for operand in tensors.buffers_in(m, args[:1]) if shown else ():
        m.is_memory(operand, Evidence.INFERRED)


def called(m: Machine, view: BufferV) -> None:
    """``model = build().cuda()``, then ``model(x)``: tensors are not called."""
    if view.flavor is Flavor.TORCH:
        m.objects.add(view.id)


def _may_be(view: BufferV) -> bool:
    """A part of an unresolved result says nothing about the other parts."""
    return view.flavor is Flavor.TORCH or (view.flavor is Flavor.OPAQUE and view.region == WHOLE)


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``module.name(...)``"""
    if name in model.MODULE_RETURNS_SELF:
        moved_modules.move(m, symbol_of(view), name, args, kwargs, span)
        return view
    if name in model.GIVES_OF_MODULE:
        return given(m, symbol_of(view), name, args)
    if name in model.FILLS_MODULE:
        fills_own(m, symbol_of(view), span)
    if name in model.MODULE_HOOKS:
        hooks.register(m, view, name, args, span)
    return unresolved.opaque(m, f"{m.buffers[view.id].name or 'module'}.{name}", args, kwargs, span)


def of_object(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What each module has, one of the tree or one that holds others: ``Net().cuda()`` is the net."""
    if name in model.GIVES_OF_MODULE:
        if name in model.MODULE_LISTINGS and has_no_parameters(m, receiver, kwargs):
            return m.new_list([])
        return given(m, m.symbol_of_object(receiver), name, args)
    if name in model.MODULE_TREE or not inherits(m, receiver, name):
        return None
    if name in model.MODULE_HOOKS:
        return hooks.register(m, receiver, name, args, span)
    if name == model.MODULE_STATE:
        return state(m, m.symbol_of_object(receiver))
    moved_modules.move(m, m.symbol_of_object(receiver), name, args, kwargs, span)
    return receiver


def inherits(m: Machine, value: HeapV, name: str) -> bool:
    """Whether an object is a module, and a method gives it back, or all that it owns, or takes hooks."""
    return name in _INHERITED and _is_one(m, m.heap[value.id])


def _is_one(m: Machine, held: HeapObject) -> bool:
    if held.cls is None:
        return held.kind.startswith("torch.nn.")
    order = m.project.ancestors(held.cls)[0]
    bases = (m.project.named(cls.module, base) for cls in order for base in cls.bases)
    return any(isinstance(base, ApiV) and base.path.startswith("torch.nn.") for base in bases)


def given(m: Machine, owner: Symbol, name: str, args: list[Value], *, layer: bool = False) -> Value:
    """What a module lists of its own, or one of it: ``net.get_parameter("head.weight")``."""
    if name in model.MODULE_LISTINGS:
        return listed(m, owner, name, layer=layer)
    asked = symbol_of(names.settle(m, args[0])) if args else symbols.EACH
    return SymV(symbols.Item(symbols.Attr(owner, model.MODULE_PARTS[name]), asked))


def has_no_parameters(m: Machine, module: Value, kwargs: dict[str, Value]) -> bool:
    """Whether a module has no parameters to list: ``nn.GELU()``, a sequence without those of its parts."""
    match module:
        case SymV(symbol, computes=computes):
            path = m.makers.get(symbol, "")
            plain = bool(computes) and computes not in torch_layers.WITH_PARAMETERS
        case HeapV():
            path, plain = m.heap[module.id].kind, False
        case _:
            return False
    if plain or names.settle(m, kwargs.get("recurse", NONE)) != FALSE:
        return plain
    holds = path == model.SEQUENCE or path in model.MODULE_CONTAINERS
    return holds or (isinstance(module, HeapV) and _only_holds_parts(m, m.heap[module.id]))


def _only_holds_parts(m: Machine, held: HeapObject) -> bool:
    """Whether a module of the program has been given other modules, and nothing that may be a parameter.

    ``self.gate = Gate(width); self.up = nn.Linear(width, width)``
    """
    if held.cls is None or not m.project.ancestors(held.cls)[1]:
        return False
    if set(classes.bases_outside(m.project, held.cls)) != {model.MODULE}:
        return False
    values = (names.settle(m, value) for value in held.attrs.values())
    return not any(
        isinstance(value, BufferV) or (isinstance(value, SymV) and not is_made(m, value)) for value in values
    )


def is_layer(module: SymV) -> bool:
    """Whether a module is one layer of ``torch.nn``; ``nn.Sequential(...)`` owns what its layers do."""
    return bool(module.computes) and module.computes not in torch_layers.OF_LAYERS


LISTED = 6
"""Parameters that are told apart: as many as a loop over them has passes."""


def listed(m: Machine, owner: Symbol, name: str, *, layer: bool = False) -> HeapV:
    """``net.parameters()``, ``net.named_buffers()``: the same tensors each time that they are listed.

    Those of a layer are what its attributes hold: ``proj.parameters()`` and ``proj.weight``.
    """
    kind, named = model.MODULE_LISTINGS[name]
    if layer and kind == model.PARAMETERS_OF_MODULE:
        whole = [SymV(symbols.Attr(owner, part)) for part in torch_layers.LAYER_PARTS]
        return m.new_list(
            [TupleV((ConstV(part), held)) for part, held in zip(torch_layers.LAYER_PARTS, whole, strict=True)]
            if named
            else whole
        )
    all_of = symbols.Attr(owner, kind)
    owned = [SymV(module_memory.nth(all_of, number)) for number in range(LISTED)]
    items: list[Value] = list(owned)
    if named:
        # ema = copy.deepcopy(net), and then ema.state_dict()[name] for each name of net.
        named_so = symbols.Attr(symbols.Attr(m.named_like.get(owner, owner), kind), "name")
        items = [TupleV((SymV(module_memory.nth(named_so, i)), tensor)) for i, tensor in enumerate(owned)]
    made = m.new_list(items)
    m.heap[made.id].open = True
    return made


def state(m: Machine, owner: Symbol, *, layer: bool = False) -> HeapV:
    """``net.state_dict()``: what it owns, by name."""
    made = m.new_object(Shape.DICT)
    held = m.heap[made.id]
    for pair in m.heap[listed(m, owner, "named_parameters", layer=layer).id].items:
        assert isinstance(pair, TupleV)
        name, tensor = pair.items
        held.entries[symbol_of(name)], held.keys[symbol_of(name)] = tensor, name
    # Of another name than those it is known that it is one of them.
    held.open, held.sample = True, SymV(symbols.Attr(owner, model.PARAMETERS_OF_MODULE))
    return made


def runs_parts(m: Machine, module: Symbol, args: list[Value], span: Span) -> None:
    """Calling a module that is not in sight calls those parts of it that hooks were registered for, in turn.

    ``for name, layer in net.named_modules(): layer.register_forward_hook(tap)``, then ``net(x)``.
    """
    watched = dict.fromkeys(owner for name, owner in m.hooks if name in model.FORWARD_HOOKS)
    parts = [owner for owner in watched if symbols.is_under(owner, module)]
    for part in parts:
        if not any(symbols.is_under(part, other) for other in parts):
            m.python.call(m, SymV(part), args, {}, span)


def runs(m: Machine, module: HeapV, args: list[Value], forward: Callable[[], Value], span: Span) -> Value:
    """A module that is called: its ``forward`` runs between its hooks."""
    hooks.before_call(m, module, args, span)
    if _is_ready(m, module):
        shown = not has_no_parameters(m, module, {})
        reads_own(m, m.symbol_of_object(module), span, shown=shown, given=args)
    return hooks.after_call(m, module, args, forward(), span)


def _is_ready(m: Machine, module: HeapV) -> bool:
    """Whether what a module owns should be there when its ``forward`` begins.

    Not where some ``forward`` of the program, or a hook of a part, may wait for it: ``self.page.wait()``.
    """
    hooked = [owner for name, owner in m.hooks if name in model.FORWARD_HOOKS]
    if hooked and m.symbol_of_object(module) not in hooked:
        return False
    cls = m.heap[module.id].cls
    found = m.project.module(cls.module) if cls is not None else None
    return found is not None and not any(
        decl.name in model.CALLED and touching.by_others(m.project, decl) for decl in ir.all_functions(found)
    )


def reads_own(
    m: Machine,
    owner: Symbol,
    span: Span,
    *,
    layer: bool = False,
    computes: str = "",
    shown: bool = False,
    given: Sequence[Value] = (),
) -> None:
    """Calling a module reads what it owns by then, on the current stream: ``net.bias.data = b; net(x)``.

    ``shown``: it is one of the program's that has parameters. ``given``: what it is called with.
    """
    listed = module_memory.own(m, owner, layer=layer)
    of_layer = computes in torch_layers.WITH_PARAMETERS
    # What only its call has brought up may be one of those that the whole module has listed.
    shared = of_layer and all(view.id in m.unlisted for view in listed)
    owned = [*listed, *(module_memory.of_whole(m, owner) if shared else ())]
    if not listed and (of_layer or shown) and _computes_aside(m, owner, given):
        owned.append(moved_modules.as_it_is(m, owner, layer=layer))
    # A module of which nothing is known may leave out some of it; it keeps none of it anew.
    doubts = frozenset() if layer and not shared else frozenset({Doubt.OPAQUE})
    # What was moved to the host comes back by then: shelf.unload(name), then shelf.run(name, x).
    accesses = [reading(v, doubts) for v in owned if not m.space(v).on_host]
    if accesses:
        tensors.launch(m, span, accesses, "call of the module")


def _computes_aside(m: Machine, owner: Symbol, given: Sequence[Value]) -> bool:
    """Whether a module of a device is called in the block of a stream: it was moved, or gets what was."""
    on_device = owner in m.life.homes or any(
        isinstance(value, BufferV) and m.space(value) is Space.DEVICE for value in given
    )
    return on_device and m.is_aside(Lib.TORCH)


def reads_layers(m: Machine, sequence: SymV, span: Span) -> None:
    """Calling ``nn.Sequential(proj, nn.GELU())`` calls its layers: ``proj.weight.data = page; net(x)``."""
    if m.makers.get(sequence.symbol) != model.SEQUENCE:
        return
    for layer in sequence.holds:
        if isinstance(layer, SymV):
            reads_own(m, layer.symbol, span, layer=is_layer(layer))
            reads_layers(m, layer, span)


def are_on_host(m: Machine, args: list[Value]) -> bool:
    """Whether a layer is given tensors of the host: what it owns is there too, or PyTorch would refuse it.

    ``self.table(ids.cpu())``
    """
    given = [m.space(arg) for arg in args if isinstance(arg, BufferV)]
    return bool(given) and all(space.on_host for space in given)


def output(m: Machine, call: int, span: Span) -> SymV:
    """What a module gives that is not seen: it has queued what computes that, on the current stream.

    ``block.register_forward_hook(tap)``: PyTorch calls ``tap(block, args, output)`` behind the forward pass.
    """
    given = arguments.unknown(call, "output")
    stream, by = m.current_stream(Lib.TORCH).id, Lib.TORCH.product
    at, name = m.site(span), "forward pass"
    m.results[given.symbol] = m.emit(
        Launch(at, m.lane, _UNSEEN, Role.FORWARD, stream=stream, accesses=(), name=name, library=by)
    )
    return given


_UNSEEN = frozenset({Doubt.OPAQUE})


def fills_own(m: Machine, owner: Symbol, span: Span, *, layer: bool = False) -> None:
    """``net.load_state_dict(state)`` copies into what the module owns, on the current stream."""
    views = module_memory.own(m, owner, layer=layer)
    if not views:
        # What is loaded is there, though nothing has listed it yet.
        views = [tensors.as_buffer(m, SymV(module_memory.first(owner)), kind=Evidence.INFERRED)]
    accesses = [Access(v.id, Mode.WRITE, v.region) for v in views]
    tensors.launch(m, span, accesses, "load_state_dict")
