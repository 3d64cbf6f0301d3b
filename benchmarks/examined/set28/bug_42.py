"""Epoch set-up of a memory-hard proof-of-work: light cache upload and DAG generation (cuda.core)."""
import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
__device__ unsigned int fnv(unsigned int a, unsigned int b) { return (a * 0x01000193u) ^ b; }

extern "C" __global__ void generate_dag(const unsigned int *light, unsigned int light_items,
                                        unsigned int *dag, unsigned int start,
                                        unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned int node = start + i;
    unsigned int mix = light[node % light_items] ^ node;
    for (int k = 0; k < 256; ++k) {
        mix = fnv(mix, light[fnv(node ^ k, mix) % light_items]);
    }
    dag[node] = mix;
}

extern "C" __global__ void dag_checksum(const unsigned int *dag, unsigned int items,
                                        unsigned long long *sum) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < items) atomicAdd(sum, (unsigned long long)dag[i]);
}
"""


class EpochContext:
    def __init__(self, epoch, light_items=1 << 18, dag_items=1 << 24):
        self.epoch = epoch
        self.light_items = light_items
        self.dag_items = dag_items

    def light_cache(self):
        rng = np.random.default_rng(self.epoch)
        return rng.integers(0, 1 << 32, self.light_items, dtype=np.uint32)


class CUDAMiner:
    def __init__(self, num_streams=2):
        self.device = Device(0)
        self.device.set_current()
        options = ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        module = Program(CODE, code_type="c++", options=options).compile("cubin")
        self.generate = module.get_kernel("generate_dag")
        self.checksum = module.get_kernel("dag_checksum")
        self.streams = [self.device.create_stream() for _ in range(num_streams)]
        self.pinned = LegacyPinnedMemoryResource()
        self.light = None
        self.dag = None

    def _allocate(self, epoch):
        upload = self.device.default_stream
        self.light = self.device.allocate(4 * epoch.light_items, stream=upload)
        self.dag = self.device.allocate(4 * epoch.dag_items, stream=upload)
        self.sum = self.device.allocate(8, stream=upload)
        self.h_light = self.pinned.allocate(4 * epoch.light_items)
        self.h_sum = self.pinned.allocate(8)
        upload.sync()

    def init_epoch(self, epoch, chunk=1 << 20):
        self._allocate(epoch)
        np.from_dlpack(self.h_light).view(np.uint32)[:] = epoch.light_cache()
        self.light.copy_from(self.h_light, stream=self.device.default_stream)
        stream = self.streams[0]
        for start in range(0, epoch.dag_items, chunk):
            count = min(chunk, epoch.dag_items - start)
            config = LaunchConfig(grid=(count + 127) // 128, block=128)
            launch(
                stream, config, self.generate, self.light, np.uint32(epoch.light_items),
                self.dag, np.uint32(start), np.uint32(count),
            )
        stream.sync()

    def dag_sum(self, epoch):
        stream = self.streams[-1]
        view = np.from_dlpack(self.h_sum).view(np.uint64)
        view[0] = 0
        self.sum.copy_from(self.h_sum, stream=stream)
        config = LaunchConfig(grid=(epoch.dag_items + 255) // 256, block=256)
        launch(stream, config, self.checksum, self.dag, np.uint32(epoch.dag_items), self.sum)
        self.sum.copy_to(self.h_sum, stream=stream)
        stream.sync()
        return int(view[0])


def main():
    miner = CUDAMiner()
    for number in range(3):
        epoch = EpochContext(number)
        miner.init_epoch(epoch)
        print(number, hex(miner.dag_sum(epoch)))


if __name__ == "__main__":
    main()
