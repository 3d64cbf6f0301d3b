"""TensorRT depth estimator with PyCUDA: asynchronous uploads, plain memcpy_dtoh at the end."""
import argparse
import time

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
from pycuda.compiler import SourceModule

SCALE = SourceModule(
    """
__global__ void to_planar(const unsigned char* rgb, float* out, int hw)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hw) return;
    for (int c = 0; c < 3; ++c)
        out[c * hw + i] = rgb[3 * i + c] / 127.5f - 1.0f;
}
"""
)


class DepthNet:
    def __init__(self, plan, side):
        self.side = side
        self.logger = trt.Logger(trt.Logger.ERROR)
        with open(plan, "rb") as f, trt.Runtime(self.logger) as rt:
            self.engine = rt.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.to_planar = SCALE.get_function("to_planar")
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = self.engine.get_tensor_mode
        self.in_name = next(n for n in names if mode(n) == trt.TensorIOMode.INPUT)
        self.out_name = next(n for n in names if mode(n) == trt.TensorIOMode.OUTPUT)
        self.out_shape = tuple(self.engine.get_tensor_shape(self.out_name))
        self.rgb_host = cuda.pagelocked_empty((side, side, 3), np.uint8)
        self.rgb_dev = cuda.mem_alloc(self.rgb_host.nbytes)
        self.in_dev = cuda.mem_alloc(3 * side * side * 4)
        self.depth_host = cuda.pagelocked_empty(self.out_shape, np.float32)
        self.depth_dev = cuda.mem_alloc(self.depth_host.nbytes)
        self.context.set_tensor_address(self.in_name, int(self.in_dev))
        self.context.set_tensor_address(self.out_name, int(self.depth_dev))

    def _enqueue(self, image):
        self.rgb_host[...] = image
        cuda.memcpy_htod_async(self.rgb_dev, self.rgb_host, self.stream)
        hw = self.side * self.side
        self.to_planar(self.rgb_dev, self.in_dev, np.int32(hw),
                       block=(256, 1, 1), grid=((hw + 255) // 256, 1), stream=self.stream)
        self.context.execute_async_v3(stream_handle=self.stream.handle)

    def __call__(self, image):
        self._enqueue(image)
        cuda.memcpy_dtoh(self.depth_host, self.depth_dev)
        return self._postprocess(self.depth_host)

    @staticmethod
    def _postprocess(depth):
        d = np.squeeze(depth)
        lo, hi = np.percentile(d, (2, 98))
        return np.clip((d - lo) / max(hi - lo, 1e-6), 0.0, 1.0)


def frames(n, side):
    rng = np.random.default_rng(5)
    base = rng.integers(0, 255, (side, side, 3), dtype=np.uint8)
    for i in range(n):
        yield np.roll(base, 7 * i, axis=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("plan")
    ap.add_argument("--side", type=int, default=384)
    ap.add_argument("--frames", type=int, default=100)
    args = ap.parse_args()
    net = DepthNet(args.plan, args.side)
    start = time.perf_counter()
    means = [float(net(f).mean()) for f in frames(args.frames, args.side)]
    rate = args.frames / (time.perf_counter() - start)
    print(f"{rate:.1f} fps, mean depth {np.mean(means):.4f}")


if __name__ == "__main__":
    main()
