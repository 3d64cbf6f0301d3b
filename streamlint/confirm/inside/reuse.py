"""Hands memory that was given back out again, as the program's own next allocation might.

Memory is most often freed long before something else gets it. To show that a late use meets
another owner, an equal block is allocated where the freed one belonged, and overwritten at once.
Any program may allocate there, so one that is right returns the same value with it.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from streamlint.confirm.terms import assert_never
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.confirm.gpu.driver import Driver

T = TypeVar("T")

_POISON: Final = 0xA5

_TRIES: Final = 8
"""So many equal blocks are asked for until one is where the freed one was."""

_TRIES_OF_SMALL: Final = 64
_SMALL: Final = 1 << 20
"""Bytes. Many small blocks may be free, and any of them may come first."""

_TRIES_OF_POOL: Final = 128
"""A pool takes 32 MB at once from the device, and need not begin with what was freed."""

_MOST_SEEN: Final = 4096
_MOST_MEMBERS: Final = 16


@frozen()
class TorchBlock:
    """Memory of PyTorch's allocator, which hands it out again to the stream that it was made for."""

    address: int
    size: int
    stream: int
    device: int = 0


@frozen()
class CupyBlock:
    """Memory of CuPy's pool, which also has free blocks by stream."""

    address: int
    size: int
    stream: int


@frozen()
class CoreBlock:
    """A buffer of cuda.core, and the resource that it came from."""

    address: int
    size: int
    resource: Any = field(compare=False)


@frozen()
class PoolBlock:
    """Memory of the driver's pool (``cudaMallocAsync``), to the end of its allocation."""

    address: int
    size: int


@frozen()
class PlainBlock:
    """Memory of ``cudaMalloc``, to the end of its allocation."""

    address: int
    size: int


Findable: TypeAlias = TorchBlock | CupyBlock | CoreBlock | PlainBlock
"""What an equal allocation gets again; of a pool it may get any other memory."""

Block: TypeAlias = Findable | PoolBlock


def block_of(value: Any, driver: Driver | None) -> Block | None:  # noqa: ANN401
    """The block that an array, a buffer or a device pointer stands for; ``None`` for all else."""
    array = _array_block(value)
    if array is not None:
        return array
    kind = type(value)
    if kind.__name__ == "Buffer" and kind.__module__.startswith("cuda.core"):
        return CoreBlock(int(value.handle), int(value.size), value.memory_resource) if value.handle else None
    if (kind.__name__ == "CUdeviceptr" or kind is int) and driver is not None and int(value) > 0:
        address, size = int(value), driver.rest_of_range(int(value))
        if size:
            return PoolBlock(address, size) if driver.is_pooled(address) else PlainBlock(address, size)
    return None


def _array_block(value: Any) -> TorchBlock | CupyBlock | None:  # noqa: ANN401
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_block(torch, value)
    if cupy is not None and isinstance(value, cupy.ndarray):
        memory = value.data.mem
        return CupyBlock(memory.ptr, memory.size, int(cupy.cuda.get_current_stream().ptr))
    return None


def _torch_block(torch: Any, tensor: Any) -> TorchBlock | None:  # noqa: ANN401
    if not tensor.is_cuda:
        return None
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return TorchBlock(address, storage.nbytes(), int(segment["stream"]), int(segment["device"]))
    return None


def hand_out(block: Block, driver: Driver, streams: list[int]) -> object:
    """Allocate and overwrite an equal block; it is free again when the result is dropped.

    ``streams`` are those that the free named; memory that was freed on none may go to any stream.
    """
    match block:
        case PoolBlock():
            for stream in streams or [driver.new_stream()]:
                _overwrite_of_pool(block, driver, stream)
            return None
        case TorchBlock() | CupyBlock() | CoreBlock() | PlainBlock():
            return _overwritten(block, driver)[1]


def _overwrite_of_pool(block: PoolBlock, driver: Driver, stream: int) -> None:
    """Equal blocks are asked for on the stream until one is where the freed one was."""
    for _ in range(_TRIES_OF_POOL):
        if driver.overwritten(block.size, stream, _POISON) == block.address:
            return


def _overwritten(block: Findable, driver: Driver) -> tuple[int, object]:
    """The address of an equal block, filled, and what keeps it."""
    match block:
        case TorchBlock(size=size, stream=stream, device=device):
            torch = sys.modules["torch"]
            where = torch.device("cuda", device)
            owner = torch.cuda.ExternalStream(stream, where) if stream else torch.cuda.default_stream(where)
            with torch.cuda.stream(owner):
                tensor = torch.full((size,), _POISON, dtype=torch.uint8, device=where)
            return tensor.data_ptr(), tensor
        case CupyBlock(size=size, stream=stream):
            cupy = sys.modules["cupy"]
            with cupy.cuda.ExternalStream(stream) as owner:
                array = cupy.empty(size, dtype=cupy.uint8)
                array.data.memset_async(_POISON, size, owner)
            return array.data.ptr, array
        case CoreBlock(size=size, resource=resource):
            stream = sys.modules["cuda.core"].Device().create_stream()
            buffer = resource.allocate(size, stream=stream)
            buffer.fill(_POISON, stream=stream)
            return int(buffer.handle), buffer
        case PlainBlock(size=size):
            address = driver.allocated(size)
            driver.fill(address, size, _POISON)
            return address, None


class Past:
    """The memory of arrays that nothing refers to any more, and of pointers that were freed.

    It stands for the allocations that a program makes between a free and a late use of the memory.
    """

    def __init__(self, driver: Driver, *, keeps: bool) -> None:
        """``keeps``: all that is seen stays alive, so that no late use meets another owner."""
        self._driver = driver
        self._keeps = keeps
        self._arrays: list[tuple[weakref.ref[Any], TorchBlock | CupyBlock]] = []
        self._freed: list[Block] = []
        self._kept: list[object] = []

    def see(self, value: object) -> None:
        """Look at what the program has made: an array, or a few of them."""
        for one in value[:_MOST_MEMBERS] if isinstance(value, tuple | list) else (value,):
            if len(self._arrays) + len(self._kept) < _MOST_SEEN and (block := _array_block(one)) is not None:
                if self._keeps:
                    self._kept.append(one)
                else:
                    self._arrays.append((weakref.ref(one), block))

    def free(self, value: T) -> T:
        """What the program is to free: the value, or other memory of its kind if it is kept."""
        block = block_of(value, self._driver)
        if block is None or isinstance(block, TorchBlock | CupyBlock):
            return value
        if not self._keeps:
            self._freed.append(block)
            return value
        match block:
            case PoolBlock(size=size):
                other = self._driver.overwritten(size, self._driver.new_stream(), _POISON)
            case PlainBlock(size=size):
                other = self._driver.allocated(size)
            case CoreBlock():
                return value
            case _:
                assert_never(block)
        return type(value)(other)  # type: ignore[call-arg]

    def hand_out(self) -> None:
        """Give all of it to other owners, who overwrite it before this returns."""
        alive = [(array, block) for array, block in self._arrays if array() is not None]
        used = {block.address for _, block in alive}
        dropped = [block for array, block in self._arrays if array() is None and block.address not in used]
        self._arrays = alive
        for block in dict.fromkeys([*self._freed, *dropped]):
            self._hand_out(block)
        self._freed.clear()
        self._driver.synchronize()

    def _hand_out(self, block: Block) -> None:
        if isinstance(block, PoolBlock):
            _overwrite_of_pool(block, self._driver, self._driver.new_stream())
            return
        for _ in range(_TRIES_OF_SMALL if block.size <= _SMALL else _TRIES):
            address, owner = _overwritten(block, self._driver)
            self._kept.append(owner)
            if address == block.address:
                return
