"""Captured frame transform replayed over a stream of host frames (cuda.core)."""
import numpy as np
from cuda.core import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

CODE = """
extern "C" __global__ void halve(const float* src, float* tmp, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w / 2 && y < h / 2)
        tmp[y * (w / 2) + x] = 0.25f * (src[2 * y * w + 2 * x] + src[2 * y * w + 2 * x + 1]
            + src[(2 * y + 1) * w + 2 * x] + src[(2 * y + 1) * w + 2 * x + 1]);
}
extern "C" __global__ void normalize(const float* tmp, float* dst, int n, float mean, float inv) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = (tmp[i] - mean) * inv;
}
"""


class HostSlot:
    def __init__(self, mr, nbytes, stream):
        self.buffer = mr.allocate(nbytes, stream=stream)
        self.view = np.from_dlpack(self.buffer).view(np.float32)
        self.done = None

    def wait(self):
        if self.done is not None:
            self.done.sync()
            self.done = None


class FrameGraph:
    """Fixed device buffers, a captured kernel chain, rotating pinned slots."""

    def __init__(self, device, width, height, depth=2):
        self.device = device
        self.stream = device.create_stream()
        n_in, n_out = width * height, width * height // 4
        self.src = device.allocate(n_in * 4, stream=self.stream)
        self.tmp = device.allocate(n_out * 4, stream=self.stream)
        self.dst = device.allocate(n_out * 4, stream=self.stream)
        pinned = LegacyPinnedMemoryResource()
        self.inputs = [HostSlot(pinned, n_in * 4, self.stream) for _ in range(depth)]
        self.outputs = [HostSlot(pinned, n_out * 4, self.stream) for _ in range(depth)]
        self.stream.sync()
        self.graph = self._capture(width, height, n_out)
        self.graph.upload(self.stream)
        self.turn = 0

    def _capture(self, width, height, n_out):
        module = Program(CODE, code_type="c++", options=ProgramOptions(
            std="c++17", arch=f"sm_{self.device.arch}")).compile(
                "cubin", name_expressions=())
        halve, norm = module.get_kernel("halve"), module.get_kernel("normalize")
        builder = self.device.create_graph_builder()
        builder.begin_building()
        launch(builder, LaunchConfig(grid=((width // 2 + 15) // 16, (height // 2 + 15) // 16),
                                     block=(16, 16)),
               halve, self.src, self.tmp, np.int32(width), np.int32(height))
        launch(builder, LaunchConfig(grid=(n_out + 255) // 256, block=256),
               norm, self.tmp, self.dst, np.int32(n_out), np.float32(0.5), np.float32(4.0))
        return builder.end_building().complete()

    def push(self, frame):
        """Queue one frame; returns the output slot, to be read after wait()."""
        slot = self.turn % len(self.inputs)
        self.turn += 1
        source, target = self.inputs[slot], self.outputs[slot]
        source.wait()
        source.view[:] = frame.ravel()
        self.src.copy_from(source.buffer, stream=self.stream)
        source.done = self.stream.record()
        self.graph.launch(self.stream)
        target.buffer.copy_from(self.dst, stream=self.stream)
        target.done = self.stream.record()
        return target


def main():
    device = Device()
    device.set_current()
    runner = FrameGraph(device, 1920, 1080)
    rng = np.random.default_rng(9)
    previous, means = None, []
    for _ in range(24):
        current = runner.push(rng.random((1080, 1920), dtype=np.float32))
        if previous is not None:
            previous.wait()
            means.append(float(previous.view.mean()))
        previous = current
    previous.wait()
    means.append(float(previous.view.mean()))
    print(len(means), np.mean(means))
    runner.stream.sync()


if __name__ == "__main__":
    main()
