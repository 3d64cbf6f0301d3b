"""Prefill process publishes KV layers to a decode process through device IPC."""
import multiprocessing as mp

import numpy as np
from cuda.core import (
    Device, DeviceMemoryResource, DeviceMemoryResourceOptions, LaunchConfig,
    LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

LAYER_ELEMS = 1 << 23
LAYERS = 32

CODE = """
extern "C" __global__ void project_kv(float* kv, size_t n, int layer) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        float v = 0.f;
        for (int k = 0; k < 64; ++k) v = 0.5f * v + sinf((float)(i % 977) * k + layer);
        kv[i] = v;
    }
}
"""


class TransferEngine:
    """Copies slices into the exported region and notifies the target."""

    def __init__(self, region, stream, notify, ack):
        self.region = region
        self.stream = stream
        self.notify = notify
        self.ack = ack

    def submit(self, slice_id, source):
        self.region.copy_from(source, stream=self.stream)
        self.notify.put(slice_id)

    def wait_consumed(self):
        return self.ack.get()

    def finish(self):
        self.notify.put(None)


def decode_main(region, notify, ack, results):
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    staging = LegacyPinnedMemoryResource().allocate(region.size, stream=stream)
    view = np.from_dlpack(staging).view(np.float32)
    while True:
        layer = notify.get()
        if layer is None:
            break
        staging.copy_from(region, stream=stream)
        stream.sync()
        results.put((layer, float(view.mean())))
        ack.put(layer)


class PrefillWorker:
    def __init__(self, device, stream, engine, mr):
        self.stream = stream
        self.engine = engine
        self.kv = mr.allocate(LAYER_ELEMS * 4, stream=stream)
        program = Program(CODE, code_type="c++",
                          options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
        self.kernel = program.compile("cubin").get_kernel("project_kv")
        self.config = LaunchConfig(grid=(LAYER_ELEMS + 255) // 256, block=256)

    def run(self):
        for layer in range(LAYERS):
            launch(self.stream, self.config, self.kernel,
                   self.kv, np.uint64(LAYER_ELEMS), np.int32(layer))
            self.engine.submit(layer, self.kv)
            self.engine.wait_consumed()
        self.engine.finish()


def main():
    mp.set_start_method("spawn")
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    mr = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(
        max_size=LAYER_ELEMS * 16, ipc_enabled=True))
    region = mr.allocate(LAYER_ELEMS * 4, stream=stream)
    stream.sync()

    notify, ack, results = mp.Queue(), mp.Queue(), mp.Queue()
    decoder = mp.Process(target=decode_main, args=(region, notify, ack, results))
    decoder.start()
    PrefillWorker(device, stream, TransferEngine(region, stream, notify, ack), mr).run()
    print(sorted(results.get() for _ in range(LAYERS))[:4])
    decoder.join()
    stream.sync()


if __name__ == "__main__":
    main()
