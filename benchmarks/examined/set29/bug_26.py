"""Arrow export of device columns: every device buffer of a column is copied
into host buffers that are then handed to pyarrow."""
from dataclasses import dataclass
from typing import List

import numpy as np
import pyarrow as pa
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch,
)

KERNELS = r"""
extern "C" __global__ void fill_ramp(double* out, double start, double step, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = start + step * i;
}
"""


@dataclass
class Column:
    name: str
    length: int
    data: object


class HostBuffers:
    """Host side of the export, allocated once and grown on demand."""

    def __init__(self):
        self.mr = LegacyPinnedMemoryResource()
        self.buffers = {}

    def get(self, key, nbytes):
        buf = self.buffers.get(key)
        if buf is None or buf.size < nbytes:
            buf = self.mr.allocate(nbytes)
            self.buffers[key] = buf
        return buf


class ArrowWriter:
    def __init__(self, stream):
        self.stream = stream
        self.host = HostBuffers()

    def fetch_buffer(self, col: Column):
        host = self.host.get(col.name, col.data.size)
        col.data.copy_to(host, stream=self.stream)
        return host

    def to_arrow(self, columns: List[Column]) -> pa.Table:
        arrays = {}
        for col in columns:
            raw = np.from_dlpack(self.fetch_buffer(col)).view(np.float64)
            arrays[col.name] = pa.array(raw[:col.length].copy())
        return pa.table(arrays)


def main():
    dev = Device()
    dev.set_current()
    stream = dev.create_stream()
    arch = "sm_%d%d" % dev.compute_capability
    mod = Program(KERNELS, code_type="c++", options=ProgramOptions(arch=arch)).compile("cubin")
    fill = mod.get_kernel("fill_ramp")
    n = 1 << 20
    cols = []
    for i in range(4):
        buf = dev.allocate(n * 8, stream=stream)
        cols.append(Column("c%d" % i, n, buf))
    writer = ArrowWriter(stream)
    cfg = LaunchConfig(grid=(n + 255) // 256, block=256)
    tables = []
    for rnd in range(5):
        for i, col in enumerate(cols):
            launch(stream, cfg, fill, col.data, np.float64(rnd), np.float64(i), np.uint64(n))
        tables.append(writer.to_arrow(cols))
    stream.sync()
    for col in cols:
        col.data.close(stream)
    print([t["c1"][5] for t in tables])


if __name__ == "__main__":
    main()
