"""Checksums of a long recording: blocks are uploaded on one stream, reduced on another."""
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
void fold(const unsigned int* data, unsigned long long* out, int n, int block_id) {
    __shared__ unsigned long long part[256];
    unsigned long long acc = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        acc += (unsigned long long)data[i] * (i % 65521 + 1);
    part[threadIdx.x] = acc;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[block_id] = part[0];
}
"""


class Slot:
    def __init__(self, pinned, nbytes):
        self.buffer = pinned.allocate(nbytes)
        self.view = np.from_dlpack(self.buffer).view(np.uint32)
        self.busy = None

    def wait(self):
        if self.busy is not None:
            self.busy.sync()
            self.busy = None


class Checksums:
    def __init__(self, words, blocks, depth=3, device_id=0):
        self.device = Device(device_id)
        self.device.set_current()
        self.words, self.nbytes = words, words * 4
        self.blocks = blocks
        self.upload = self.device.create_stream()
        self.reduce = self.device.create_stream()
        pinned = LegacyPinnedMemoryResource()
        self.slots = [Slot(pinned, self.nbytes) for _ in range(depth)]
        self.host_out = pinned.allocate(blocks * 8)
        self.dev_out = self.device.allocate(blocks * 8, stream=self.reduce)
        program = Program(
            SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        )
        self.kernel = program.compile("cubin").get_kernel("fold")
        self.config = LaunchConfig(grid=1, block=256)
        self.count = 0

    def add(self, words):
        if self.count == self.blocks:
            raise ValueError("all blocks are used")
        slot = self.slots[self.count % len(self.slots)]
        slot.wait()
        slot.view[: len(words)] = words
        slot.view[len(words) :] = 0
        block = self.device.allocate(self.nbytes, stream=self.upload)
        block.copy_from(slot.buffer, stream=self.upload)
        self.reduce.wait(self.upload.record())
        launch(
            self.reduce,
            self.config,
            self.kernel,
            block,
            self.dev_out,
            np.int32(self.words),
            np.int32(self.count),
        )
        slot.busy = self.reduce.record()
        block.close(self.reduce)
        self.count += 1

    def result(self):
        self.dev_out.copy_to(self.host_out, stream=self.reduce)
        self.reduce.sync()
        return np.from_dlpack(self.host_out).view(np.uint64)[: self.count].copy()


def digest(path, words=1 << 20):
    raw = np.memmap(path, dtype=np.uint32, mode="r")
    blocks = -(-len(raw) // words)
    sums = Checksums(words, max(1, blocks))
    for i in range(blocks):
        sums.add(raw[i * words : (i + 1) * words])
    return sums.result()
