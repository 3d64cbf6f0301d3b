"""Semantic segmentation with TensorRT and PyCUDA; the masks are written as an npz file."""
import argparse
from contextlib import ExitStack

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


class HostDevicePair:
    def __init__(self, shape, dtype):
        self.shape = tuple(shape)
        self.host = cuda.pagelocked_empty(int(np.prod(shape)), dtype)
        self.device = cuda.mem_alloc(self.host.nbytes)

    def upload(self, value, stream):
        np.copyto(self.host, np.asarray(value, dtype=self.host.dtype).ravel())
        cuda.memcpy_htod_async(self.device, self.host, stream)

    def download(self, stream):
        cuda.memcpy_dtoh_async(self.host, self.device, stream)
        return self.host


class Segmenter:
    def __init__(self, plan_path):
        self.logger = trt.Logger(trt.Logger.ERROR)
        with open(plan_path, "rb") as f, trt.Runtime(self.logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.inputs, self.outputs = {}, {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            pair = HostDevicePair(
                self.engine.get_tensor_shape(name), trt.nptype(self.engine.get_tensor_dtype(name))
            )
            mode = self.engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs)[name] = pair
            self.context.set_tensor_address(name, int(pair.device))

    def _classes(self, flat, shape):
        scores = flat.reshape(shape)
        return scores.argmax(axis=1).astype(np.uint8)

    def segment(self, image):
        with ExitStack() as after:
            after.callback(self.stream.synchronize)
            for pair in self.inputs.values():
                pair.upload(image, self.stream)
            self.context.execute_async_v3(stream_handle=self.stream.handle)
            masks = {}
            for name, pair in self.outputs.items():
                flat = pair.download(self.stream)
                masks[name] = self._classes(flat, pair.shape)
        return masks


def normalise(img):
    mean = np.array([0.485, 0.456, 0.406], dtype=np.float32)[:, None, None]
    std = np.array([0.229, 0.224, 0.225], dtype=np.float32)[:, None, None]
    return (img.astype(np.float32) / 255.0 - mean) / std


def images(n, side):
    rng = np.random.default_rng(7)
    for _ in range(n):
        yield normalise(rng.integers(0, 255, (3, side, side), dtype=np.uint8))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("plan")
    ap.add_argument("--count", type=int, default=16)
    ap.add_argument("--side", type=int, default=1024)
    ap.add_argument("--out", default="masks.npz")
    args = ap.parse_args()
    seg = Segmenter(args.plan)
    stacked = []
    for img in images(args.count, args.side):
        masks = seg.segment(img)
        stacked.append(next(iter(masks.values())))
    np.savez_compressed(args.out, masks=np.concatenate(stacked))
    print("classes seen:", np.unique(np.concatenate(stacked)).tolist())


if __name__ == "__main__":
    main()
