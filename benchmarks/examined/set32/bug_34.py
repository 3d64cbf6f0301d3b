"""Rows are scattered straight into the buffers of the peers; the kernel finds the
buffers through a table of addresses in device memory."""
import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__
void scatter_rows(const float* src, const int* dest, const int* slot,
                  float* const* table, int rows, int width) {
    int row = blockIdx.x;
    if (row >= rows) return;
    float* out = table[dest[row]] + (size_t)slot[row] * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[i] = src[(size_t)row * width + i];
}
"""


class PeerTable:
    def __init__(self, device, world):
        self.device, self.world = device, world
        self.comm_stream = device.create_stream()
        self.nbytes = 8 * world
        self.pinned = LegacyPinnedMemoryResource().allocate(self.nbytes)
        self.entries = np.from_dlpack(self.pinned).view(np.uint64)
        self.entries[:] = 0
        self.table = device.allocate(self.nbytes, stream=self.comm_stream)
        self._push()
        self.comm_stream.sync()

    def _push(self):
        self.table.copy_from(self.pinned, stream=self.comm_stream)

    def connect(self, mapped):
        """``mapped``: rank -> device address of that rank's receive buffer."""
        self.comm_stream.sync()
        for rank, address in mapped.items():
            self.entries[rank] = address
        self._push()

    def disconnect(self, ranks, fallback):
        self.comm_stream.sync()
        for rank in ranks:
            self.entries[rank] = fallback
        self._push()


class Dispatcher:
    def __init__(self, device, table, width):
        self.device, self.table, self.width = device, table, width
        self.compute_stream = device.create_stream()
        program = Program(
            SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        )
        self.kernel = program.compile("cubin").get_kernel("scatter_rows")

    def dispatch(self, rows, dest, slot, count):
        config = LaunchConfig(grid=count, block=128)
        launch(
            self.compute_stream,
            config,
            self.kernel,
            rows,
            dest,
            slot,
            self.table.table,
            np.int32(count),
            np.int32(self.width),
        )

    def drain(self):
        self.compute_stream.sync()


class Exchange:
    def __init__(self, world, width, device_id=0):
        self.device = Device(device_id)
        self.device.set_current()
        self.table = PeerTable(self.device, world)
        self.dispatcher = Dispatcher(self.device, self.table, width)

    def join(self, mapped):
        self.table.connect(mapped)

    def leave(self, ranks, fallback):
        self.dispatcher.drain()
        self.table.disconnect(ranks, fallback)

    def send(self, rows, dest, slot, count):
        self.dispatcher.dispatch(rows, dest, slot, count)


def first_round(world, width, mapped, rows, dest, slot, count):
    exchange = Exchange(world, width)
    exchange.join(mapped)
    exchange.send(rows, dest, slot, count)
    exchange.dispatcher.drain()
    return exchange
