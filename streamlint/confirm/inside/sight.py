"""What a probe has seen of an object of the program: enough to look at it later, and no strong reference."""

from __future__ import annotations

import ctypes
import sys
import weakref
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from streamlint.confirm.inside.reuse import Block, block_of
from streamlint.confirm.inside.values import snapshot
from streamlint.confirm.terms import GONE, RESULT
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.confirm.gpu.driver import Driver

Leaves: TypeAlias = "list[tuple[str, str]]"

_LARGEST_NUMBER: Final = 1 << 32
"""Larger integers are addresses, which are others in every process."""

_MOST_ELEMENTS: Final = 1 << 22
_POINTED_AT: Final = 64
"""Bytes compared behind a raw pointer: nobody says how many there are."""

_MOST_MEMBERS: Final = 16
_DEEPEST: Final = 3


@frozen(eq=False)
class Sight:
    """An array, by weak references to it and to the array that it is a view of."""

    name: str
    text: str | None = None
    """A number or a short text, kept as it was."""
    array: weakref.ref[Any] | None = None
    base: weakref.ref[Any] | None = None
    geometry: tuple[Any, ...] = ()
    pointer: int = 0
    storage: int = 0
    parts: tuple[Sight, ...] = ()

    def keys(self) -> set[int]:
        """The memory that it stands for."""
        own = {self.storage} if self.storage else set()
        return own.union(*(part.keys() for part in self.parts))

    def living_keys(self) -> set[int]:
        """The same, less what is gone: other arrays may be there by now."""
        gone = self.array is not None and self.array() is None and (self.base is None or self.base() is None)
        own = {self.storage} if self.storage and not gone else set()
        return own.union(*(part.living_keys() for part in self.parts))

    def block(self, driver: Driver | None) -> Block | None:
        """The memory, as far as it can be handed out again."""
        return block_of(self.pointer or (None if self.array is None else self.array()), driver)

    def leaves(self, driver: Driver | None) -> Leaves:
        """The contents now; the device must be idle."""
        found: Leaves = []
        if self.text is not None:
            found.append((self.name, self.text))
        elif self.pointer and driver is not None:
            found += _prefixed(self.name, snapshot(driver.peek(self.pointer, _POINTED_AT)))
        elif self.array is not None:
            value = self._array()
            if value is None:
                found.append((self.name, GONE))
            else:
                found += _prefixed(self.name, snapshot(_limited(value)))
        for part in self.parts:
            found += part.leaves(driver)
        return found

    def _array(self) -> Any:  # noqa: ANN401
        assert self.array is not None
        value = self.array()
        if value is not None or self.base is None:
            return value
        # `x[:n].copy_(y)`: the view is gone after the statement, what it shows is not.
        base = self.base()
        return None if base is None or not self.geometry else base.detach().as_strided(*self.geometry)


def sight_of(name: str, value: object, driver: Driver | None, depth: int = 0) -> Sight | None:
    """What can be compared of ``value``; ``None`` if nothing can.

    ``depth``: in how many containers it is. ``{"x": x, "y": [y]}`` and ``[(1, 2.0)]`` are seen to the ground.
    """
    if value is None or isinstance(value, bool | float | complex):
        return None if value is None else Sight(name, text=repr(value))
    if type(value) is int:
        return _number(name, value, driver)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, getattr(numpy, "number", ())):
        return Sight(name, text=repr(value.item()))  # type: ignore[attr-defined]
    if isinstance(value, str):
        return Sight(name, text=repr(value[:200])) if " at 0x" not in value else None
    if isinstance(value, tuple | list | dict):
        if depth >= _DEEPEST:
            return None
        members = islice(value.items() if isinstance(value, dict) else enumerate(value), _MOST_MEMBERS)
        parts = [
            sight_of(f"{name}[{key!r}]", one, driver, depth + 1)
            for key, one in members
            if isinstance(key, str | int)
        ]
        return Sight(name, parts=tuple(part for part in parts if part is not None))
    pointer = _pointer(value)
    return _array_sight(name, value) if pointer is None else _number(name, pointer, driver)


def result_of(number: int, value: object) -> Sight | None:
    """What a call returned, if it is a number that may come from memory.

    ``len(queue)``, ``event.query()`` and the like give plain integers, which depend on when they are asked.
    """
    numpy: Any = sys.modules.get("numpy")
    if isinstance(value, float) or (numpy is not None and isinstance(value, getattr(numpy, "number", ()))):
        return Sight(f"{RESULT}{number}", text=repr(float(value)))  # type: ignore[arg-type]
    return None


def _pointer(value: Any) -> int | None:  # noqa: ANN401
    """The address in a ``CUdeviceptr`` of the bindings, or in a ``Buffer`` of cuda.core."""
    kind = type(value)
    if kind.__name__ == "CUdeviceptr":
        return int(value)
    if kind.__name__ == "Buffer" and kind.__module__.startswith("cuda.core"):
        return int(value.handle)
    return None


def _number(name: str, value: int, driver: Driver | None) -> Sight | None:
    if driver is not None and value >= 1 << 16 and driver.knows(value):
        return Sight(name, pointer=value, storage=value)
    return Sight(name, text=repr(value)) if abs(value) < _LARGEST_NUMBER else None


def _array_sight(name: str, value: Any) -> Sight | None:  # noqa: ANN401
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            base = value._base if value._base is not None else value
            geometry = (tuple(value.shape), value.stride(), value.storage_offset())
            return Sight(
                name,
                array=weakref.ref(value),
                base=weakref.ref(base),
                geometry=geometry,
                storage=value.untyped_storage().data_ptr(),
            )
        address = _address(value)
        if address is None:
            return None
        return Sight(name, array=weakref.ref(value), storage=address)
    except (AttributeError, RuntimeError, TypeError):
        return None  # a tensor without storage, an object that takes no weak references


def _address(value: Any) -> int | None:  # noqa: ANN401
    """Where the memory of a NumPy, CuPy or Numba array begins, for views too."""
    base = value
    while getattr(base, "base", None) is not None and hasattr(base.base, "__array_interface__"):
        base = base.base
    for protocol in ("__cuda_array_interface__", "__array_interface__"):
        interface = getattr(base, protocol, None)
        if isinstance(interface, dict) and interface.get("data"):
            return int(interface["data"][0])
    if isinstance(value, ctypes.Array):
        return ctypes.addressof(value)
    return None


def _limited(value: Any) -> Any:  # noqa: ANN401
    """The first elements of what is too large to copy."""
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    if isinstance(size, int) and size > _MOST_ELEMENTS and hasattr(value, "ravel"):
        return value.ravel()[:_MOST_ELEMENTS]
    return value


def _prefixed(name: str, leaves: tuple[tuple[str, str], ...]) -> Leaves:
    return [(f"{name}{place}", text) for place, text in leaves]
