"""A returned value as text that two processes can compare.

Bitwise: confirm compares two runs of one program on one GPU, where any difference that the control
run does not show is a consequence of the schedule.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

Leaf: TypeAlias = tuple[str, str]
"""A place inside the value (``"[0].shape"``) and its text."""

Snapshot: TypeAlias = tuple[Leaf, ...]

SAMPLE = 1024
"""Elements of a large array that are kept next to its digest: as many from the start, as many spread."""

_MAX_DEPTH = 8


def snapshot(value: object) -> Snapshot:
    """Flatten ``value`` into leaves. The device must be idle: arrays are copied to the host here."""
    leaves: list[Leaf] = []
    _flatten(value, "", leaves, 0)
    return tuple(leaves)


def _flatten(value: Any, place: str, leaves: list[Leaf], depth: int) -> None:  # noqa: ANN401
    if depth > _MAX_DEPTH:
        leaves.append((place, "..."))
    elif isinstance(value, enum.Enum):
        leaves.append((place, str(value)))
    elif value is None or isinstance(value, bool | int | float | complex | str):
        leaves.append((place, repr(value)))
    elif isinstance(value, bytes | bytearray | memoryview):
        _array(list(bytes(value)), bytes(value), place, leaves)
    elif isinstance(value, ctypes.Array):
        _array(list(value), bytes(value), place, leaves)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            _flatten(value[key], f"{place}[{key!r}]", leaves, depth + 1)
    elif isinstance(value, tuple | list):
        leaves.append((f"{place}.len", str(len(value))))
        for index, item in enumerate(value):
            _flatten(item, f"{place}[{index}]", leaves, depth + 1)
    else:
        _other(value, place, leaves)


def _other(value: Any, place: str, leaves: list[Leaf]) -> None:  # noqa: ANN401
    host = _on_host(value)
    if hasattr(host, "tobytes") and hasattr(host, "ravel"):
        leaves.append((f"{place}.shape", f"{tuple(host.shape)} {host.dtype}"))
        _array(host.ravel().tolist(), host.tobytes(), place, leaves)
    elif hasattr(value, "value") and isinstance(value, ctypes._SimpleCData):
        leaves.append((place, repr(value.value)))
    else:
        # Objects print their address, which is another one in every process.
        leaves.append((place, type(value).__name__))


def _on_host(value: Any) -> Any:  # noqa: ANN401
    """A NumPy array, where ``value`` is an array of a library known to copy itself to the host."""
    match type(value).__module__.partition(".")[0]:
        case "torch" if hasattr(value, "detach"):
            host = value.detach().cpu().contiguous()
            # bfloat16 has no NumPy type; float32 holds each of its values exactly.
            return (host if "bfloat16" not in str(host.dtype) else host.float()).numpy()
        case "cupy" if hasattr(value, "get"):
            return value.get()
        case "numba" | "numba_cuda" if hasattr(value, "copy_to_host"):
            return value.copy_to_host()
        case "warp" if hasattr(value, "numpy"):
            return value.numpy()
        case _:
            return value


def _array(items: list[Any], raw: bytes, place: str, leaves: list[Leaf]) -> None:
    step = max(1, len(items) // SAMPLE)
    chosen = list(range(len(items)))
    if len(items) > 2 * SAMPLE:
        chosen = [*range(SAMPLE), *range(SAMPLE, len(items), step)]
    leaves.extend((f"{place}[{index}]", repr(items[index])) for index in chosen)
    leaves.append((f"{place}.sha256", hashlib.sha256(raw).hexdigest()))
