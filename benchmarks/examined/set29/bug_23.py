"""Exchange operator: columns are packed into one contiguous buffer by the
producer and unpacked into separate columns by the consuming pipeline."""
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream

ALIGN = 256


def _aligned(n: int) -> int:
    return (n + ALIGN - 1) // ALIGN * ALIGN


@dataclass
class PackedTable:
    buffer: Optional[rmm.DeviceBuffer]
    layout: Dict[str, Tuple[int, int, np.dtype]] = field(default_factory=dict)
    ready: Optional[cp.cuda.Event] = None

    def view(self, name: str) -> cp.ndarray:
        offset, count, dtype = self.layout[name]
        nbytes = count * dtype.itemsize
        mem = cp.cuda.UnownedMemory(self.buffer.ptr + offset, nbytes, None)
        return cp.ndarray((count,), dtype=dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class Packer:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def pack(self, columns: Dict[str, np.ndarray]) -> PackedTable:
        layout, total = {}, 0
        for name, col in columns.items():
            layout[name] = (total, col.size, col.dtype)
            total += _aligned(col.nbytes)
        buf = rmm.DeviceBuffer(size=total, stream=RmmStream(obj=self.stream))
        table = PackedTable(buf, layout)
        with self.stream:
            for name, col in columns.items():
                table.view(name).set(col)
            table.ready = self.stream.record()
        return table


class CudfVector:
    """A batch of rows that is still in its packed form."""

    def __init__(self, packed: PackedTable, stream: cp.cuda.Stream):
        self.packed = packed
        self.stream = stream

    def release(self) -> Dict[str, cp.ndarray]:
        packed = self.packed
        self.stream.wait_event(packed.ready)
        out = {}
        with self.stream:
            for name in packed.layout:
                out[name] = packed.view(name).copy()
        packed.buffer = None
        return out


def run(batches, stream):
    packer = Packer()
    totals = None
    for columns in batches:
        vector = CudfVector(packer.pack(columns), stream)
        table = vector.release()
        with stream:
            s = table["price"] * table["qty"]
            totals = s.sum() if totals is None else totals + s.sum()
    with stream:
        return totals.get()


if __name__ == "__main__":
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=2**30)
    )
    rng = np.random.default_rng(0)
    data = [
        {"price": rng.random(1 << 20, dtype=np.float32), "qty": rng.random(1 << 20, dtype=np.float32)}
        for _ in range(16)
    ]
    print(run(data, cp.cuda.Stream(non_blocking=True)))
