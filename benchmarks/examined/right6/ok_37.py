import contextlib

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as drv
import torch
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void nv12_luma(const unsigned char *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (y[i] - 16.0f) / 219.0f;
}
""")
nv12_luma = mod.get_function("nv12_luma")


class CompoundStream:
    """One CUDA stream known to both libraries."""

    def __init__(self, device):
        self.raw = drv.Stream()
        self.torch_stream = torch.cuda.ExternalStream(self.raw.handle, device=device)

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(torch.cuda.stream(self.torch_stream))
        return self

    def __exit__(self, *exc):
        done = self.torch_stream.record_event()
        self._stack.close()
        torch.cuda.current_stream().wait_event(done)
        return False


def to_luma(frame, stream):
    n = frame.size
    src = torch.from_numpy(frame).cuda()
    out = torch.empty(n, device="cuda")
    nv12_luma(np.intp(src.data_ptr()), np.intp(out.data_ptr()), np.int32(n),
              block=(256, 1, 1), grid=((n + 255) // 256, 1), stream=stream.raw)
    return out


def brightness(frames):
    stream = CompoundStream(torch.device("cuda", 0))
    values = []
    for frame in frames:
        with stream:
            luma = to_luma(frame, stream)
            blurred = torch.nn.functional.avg_pool1d(luma[None], 9)
            level = blurred.mean()
        level.record_stream(torch.cuda.current_stream())
        values.append(level * 100.0)
    return [round(v, 2) for v in torch.stack(values).tolist()]


if __name__ == "__main__":
    frames = (np.full(1 << 20, 16 + 20 * k, np.uint8) for k in range(8))
    print(brightness(frames))
