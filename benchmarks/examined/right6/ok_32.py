import numpy as np
import torch
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void leaky(const float* x, float* y, float slope, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.f ? x[i] : slope * x[i];
}
"""


class TorchStreamWrapper:
    """Adapts a torch stream to the cuda stream protocol."""

    def __init__(self, stream):
        self.stream = stream

    def __cuda_stream__(self):
        return (0, self.stream.cuda_stream)


class LeakyOp:
    def __init__(self):
        self.dev = Device(torch.cuda.current_device())
        self.dev.set_current()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.kernel = mod.get_kernel("leaky")
        self._streams = {}

    def _stream(self):
        torch_stream = torch.cuda.current_stream()
        key = torch_stream.cuda_stream
        if key not in self._streams:
            self._streams[key] = self.dev.create_stream(TorchStreamWrapper(torch_stream))
        return self._streams[key]

    def __call__(self, x, slope):
        y = torch.empty_like(x)
        cfg = LaunchConfig(grid=(x.numel() + 255) // 256, block=256)
        launch(self._stream(), cfg, self.kernel, x.data_ptr(), y.data_ptr(),
               np.float32(slope), np.uint64(x.numel()))
        return y


def main():
    op = LeakyOp()
    side = torch.cuda.Stream()
    x = torch.randn(1 << 16, device="cuda")
    a = op(x, 0.1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        b = op(op(x, 0.5), 0.2)
    torch.cuda.current_stream().wait_stream(side)
    b.record_stream(torch.cuda.current_stream())
    print((a + b).sum().item())


if __name__ == "__main__":
    main()
