"""Hands memory that was given back out again, as the program's own next allocation might.

Memory is most often freed long before something else gets it. To show that a late use meets
another owner, an equal block is allocated where the freed one belonged, and overwritten at once.
Any program may allocate there, so one that is right returns the same value with it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from streamlint.confirm.driver import Driver

_POISON: Final = 0xA5


@dataclass(frozen=True, slots=True)
class TorchBlock:
    """Memory of PyTorch's allocator, which hands it out again to the stream that it was made for."""

    size: int
    stream: int


@dataclass(frozen=True, slots=True)
class PoolBlock:
    """Memory of the driver's pool (``cudaMallocAsync``), to the end of its allocation."""

    size: int


Block: TypeAlias = TorchBlock | PoolBlock


def block_of(value: Any, driver: Driver | None) -> Block | None:  # noqa: ANN401
    """The block of a tensor, a device pointer or a buffer of cuda.core; ``None`` for all else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_block(torch, value)
    if type(value).__name__ == "Buffer" and type(value).__module__.startswith("cuda.core"):
        value = int(value.handle)
    if type(value).__name__ == "CUdeviceptr" or type(value) is int:
        size = driver.rest_of_range(int(value)) if driver is not None and int(value) > 0 else 0
        return PoolBlock(size) if size else None
    return None


def _torch_block(torch: Any, tensor: Any) -> TorchBlock | None:  # noqa: ANN401
    if not tensor.is_cuda:
        return None
    storage = tensor.untyped_storage()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= storage.data_ptr() < segment["address"] + segment["total_size"]:
            return TorchBlock(storage.nbytes(), int(segment["stream"]))
    return None


def hand_out(block: Block, driver: Driver, streams: list[int]) -> object:
    """Allocate and overwrite an equal block; it is free again when the result is dropped.

    ``streams`` are those that the free named; memory that was freed on none may go to any stream.
    """
    match block:
        case TorchBlock(size, stream):
            torch = sys.modules["torch"]
            owner = torch.cuda.ExternalStream(stream) if stream else torch.cuda.default_stream()
            with torch.cuda.stream(owner):
                return torch.full((size,), _POISON, dtype=torch.uint8, device="cuda")
        case PoolBlock(size):
            for stream in streams or [driver.new_stream()]:
                driver.overwritten(size, stream, _POISON)
            return None
