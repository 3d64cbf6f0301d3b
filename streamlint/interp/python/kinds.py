"""``isinstance``: what class a value is of, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.facts import classes
from streamlint.interp.library import annotated, tensors, torch_modules
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ClassV,
    ConstV,
    DeviceV,
    EventV,
    Flavor,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    given_by,
)
from streamlint.models import host, python, torch
from streamlint.models.schema import NewEvent, NewStream
from streamlint.trace import BufferId, Evidence, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

_OF_SHAPE = {shape: cls.__name__ for shape, cls in ((Shape.LIST, list), (Shape.DICT, dict), (Shape.SET, set))}


def isinstance_of(m: Machine, args: list[Value]) -> Value:
    """``isinstance(value, options)``; open where either is not known."""
    value = args[0] if args else NONE
    wanted = args[1] if len(args) > 1 else NONE
    options = wanted.items if isinstance(wanted, TupleV) else (wanted,)
    known = _of_library(m, value, options)
    if known is not None:
        return known
    answers = [_is_a(m, value, option) for option in options]
    if True in answers or None not in answers:
        return ConstV(True in answers)
    return given_by("isinstance", value, *options)


def _is_a(m: Machine, value: Value, option: Value) -> bool | None:
    """Whether a value is of one class; None if that is not known."""
    match value, option:
        case ((StreamV() | EventV()), _):
            return _is_made_by(value, option)
        case HeapV(), ClassV(decl) if m.heap[value.id].shape is Shape.INSTANCE:
            cls = m.heap[value.id].cls
            order, complete = m.project.ancestors(cls) if cls is not None else ([], False)
            return True if decl in order else False if complete and not classes.is_protocol(decl) else None
        case _, ClassV(decl) if _class_of(m, value) is not None or _is_made_by_library(m, value):
            # A list, a number or a layer of torch.nn is of none of the program's classes.
            return None if classes.is_protocol(decl) else False
        case _, ApiV(path) if (answer := _is_module_of(m, value, path)) is not None:
            return answer
        case _, ApiV(path):
            own, name = _class_of(m, value), path.rpartition(".")[2]
            if own is not None and path in host.CLASSES_OF_MEMORY:
                # A table of tensors is none itself.
                return False
            if own is None or not (path == name or path.startswith(python.CLASS_MODULES)):
                return False if own is not None and models.find_function(path) is not None else None
            return name in python.BASES[own]
        case _:
            return None


def _is_made_by_library(m: Machine, value: Value) -> bool:
    return isinstance(value, SymV) and torch_modules.is_made(m, value)


def _is_module_of(m: Machine, value: Value, path: str) -> bool | None:
    """Whether a module that the path has made is of a class of ``torch.nn``; None for what is not known."""
    if not path.startswith("torch.nn.") or path.count(".") > len(("torch", "nn")):
        return None
    match value:
        case SymV(symbol):
            made = {m.makers.get(symbol, "")}
        case HeapV() if (cls := m.heap[value.id].cls) is not None and m.project.ancestors(cls)[1]:
            made = set(classes.bases_outside(m.project, cls))
        case HeapV():
            made = {m.heap[value.id].kind}
        case _:
            return None
    if not any(one.startswith("torch.nn.") for one in made):
        return None
    # class Scaled(nn.Linear): it is a module as well.
    return path in made or path == torch.MODULE


def type_of(m: Machine, value: Value) -> Value:
    """``type(batch)``, of which objects are made: ``type(batch)(x.to(device) for x in batch)``."""
    match value:
        case HeapV() if m.heap[value.id].shape is Shape.INSTANCE:
            cls = m.heap[value.id].cls
            return ClassV(cls) if cls is not None else given_by("type", value)
        case HeapV() | TupleV() if (own := _class_of(m, value)) is not None:
            return ApiV(own)
        case _:
            return given_by("type", value)


def takes_container(m: Machine, args: list[Value]) -> bool:
    """Whether a call of ``type(batch)`` gets a list or a table, which is what it gives."""
    return len(args) == 1 and isinstance(args[0], HeapV) and m.heap[args[0].id].shape is not Shape.INSTANCE


def shown_by(m: Machine, test: Symbol) -> None:
    """What a test says of a value where a path takes it to be true: ``if isinstance(x, np.ndarray):``."""
    match test:
        case symbols.Call(symbols.Name("isinstance"), (symbols.Memory(number), symbols.Name("cupy.ndarray"))):
            # What unresolved code gave.
            m.lives(BufferV(BufferId(number)), Space.DEVICE, Evidence.SHOWN)
            return
        case symbols.Call(symbols.Name("isinstance"), (thing, *options)) if not symbols.has(
            thing, symbols.Memory
        ):
            classes = {option.path if isinstance(option, symbols.Name) else "" for option in options}
        case _:
            return
    if classes <= python.PLAIN_CLASSES:
        annotated.is_plain(m, names.settle(m, SymV(thing)))
    elif classes == {"numpy.ndarray"}:
        view = tensors.as_buffer(m, SymV(thing), Flavor.ARRAY, Evidence.SHOWN)
        m.is_host_array(view)
    elif classes == {"cupy.ndarray"}:
        view = tensors.as_buffer(m, SymV(thing), Flavor.DEVICE_ARRAY, Evidence.SHOWN)
        m.lives(view, Space.DEVICE, Evidence.SHOWN)


def _class_of(m: Machine, value: Value) -> str | None:
    """Which of Python's own classes a value is of."""
    match value:
        case ConstV(plain):
            return type(plain).__name__
        case TupleV():
            return "tuple"
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return None
            name = held.kind or _OF_SHAPE[held.shape]
            return name if name in python.BASES else None
        case _:
            return None


def _of_library(m: Machine, value: Value, options: tuple[Value, ...]) -> Value | None:
    """The answer for memory and devices; None for other values."""
    paths = [o.path if isinstance(o, ApiV) else "" for o in options]
    own = _library_class(value)
    if own is None:
        return None
    others = [option for option in options if not isinstance(option, ApiV)]
    if own in paths or all(_is_none_of(m, value, one) for one in others):
        return ConstV(own in paths)
    # A class of the program: isinstance(x, QuantizedTensor). What is declared a tensor is hardly one;
    # what was only taken for a tensor may well be.
    asked = "isinstance" if _is_declared(m, value) else "is_a"
    return given_by(asked, value, *options)


def _is_none_of(m: Machine, value: Value, option: Value) -> bool:
    """Whether memory is of no class of the program's, which inherits from none but others of the program.

    Not what unseen code gave. What is taken for a tensor by how it is used may be of a class that can be used
    so: ``batch.to(device)``, of ``class Batch: def to(self, device): ...``.
    """
    if not isinstance(option, ClassV) or classes.is_protocol(option.decl):
        return False
    if not m.project.ancestors(option.decl)[1]:
        return False
    if not isinstance(value, BufferV):
        return True
    buffer = m.buffers[value.id]
    if buffer.origin is Origin.ARGUMENT or buffer.kind is Evidence.ASSUMED:
        return False
    own = classes.methods(m.project, option.decl).keys()
    return buffer.kind is Evidence.SHOWN or torch.MOVES_MODULE.isdisjoint(own)


def _library_class(value: Value) -> str | None:
    """The class of memory, or of a device, where the value is of one that tests ask for."""
    match value:
        case BufferV(flavor=Flavor.TORCH):
            return "torch.Tensor"
        case BufferV(flavor=Flavor.ARRAY):
            return "numpy.ndarray"
        case BufferV(flavor=Flavor.DEVICE_ARRAY):
            return "cupy.ndarray"
        case DeviceV():
            return "torch.device"
        case _:
            return None


def _is_declared(m: Machine, value: Value) -> bool:
    """Whether a tensor is a parameter that says so: ``x: torch.Tensor``."""
    buffer = m.buffers[value.id] if isinstance(value, BufferV) else None
    if buffer is None or buffer.origin is not Origin.ARGUMENT:
        return False
    return buffer.kind is Evidence.SHOWN or m.given.get(buffer.id) not in m.roles


def _is_made_by(value: StreamV | EventV, cls: Value) -> bool | None:
    """Whether a stream or event is of a library's class; None for other classes and for bare handles.

    A stream of PyTorch's may be one of another accelerator's: ``torch.xpu.Stream``.
    """
    if not isinstance(cls, ApiV) or value.lib is None or (isinstance(value, StreamV) and value.raw):
        return None
    row = models.find_function(cls.path)
    if row is None:
        return None
    framework, api = row
    made = NewStream if isinstance(value, StreamV) else NewEvent
    if api.has(made):
        of_same = framework.lib is value.lib
        return None if of_same and cls.path.startswith(torch.OTHER_ACCELERATORS) else of_same
    return False if api.has(NewStream, NewEvent) else None
