"""TensorRT detector with CuPy buffers: preprocess, infer, split the detections."""
import sys

import cupy as cp
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)

_letterbox = cp.ElementwiseKernel(
    "uint8 px, float32 scale", "float32 y", "y = px * scale", "letterbox_scale"
)


class Binding:
    def __init__(self, engine, name):
        self.name = name
        self.is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        self.shape = tuple(engine.get_tensor_shape(name))
        self.dtype = np.dtype(trt.nptype(engine.get_tensor_dtype(name)))
        self.array = cp.zeros(self.shape, dtype=self.dtype)


class Detector:
    def __init__(self, plan, score_floor=0.25):
        self.score_floor = score_floor
        self.runtime = trt.Runtime(LOGGER)
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.bindings = [Binding(self.engine, n) for n in names]
        for b in self.bindings:
            self.context.set_tensor_address(b.name, b.array.data.ptr)
        self.inputs = [b for b in self.bindings if b.is_input]
        self.outputs = [b for b in self.bindings if not b.is_input]
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def preprocess(self, images):
        frames = cp.asarray(np.stack(images))
        chw = cp.ascontiguousarray(frames.transpose(0, 3, 1, 2))
        return _letterbox(chw, np.float32(1.0 / 255.0))

    def _feed(self, batch):
        cp.copyto(self.inputs[0].array, batch)

    def _collect(self):
        with self.stream:
            return [b.array.copy() for b in self.outputs]

    def __call__(self, images):
        self._feed(self.preprocess(images))
        if not self.context.execute_async_v3(self.stream.ptr):
            raise RuntimeError("enqueue failed")
        results = self._collect()
        self.stream.synchronize()
        return self._decode(results)

    def _decode(self, results):
        dets = results[0]
        keep = dets[..., 4] > self.score_floor
        return [cp.asnumpy(d[k]) for d, k in zip(dets, keep)]


def synthetic_frames(count, size=640):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 255, (size, size, 3), dtype=np.uint8)


def main():
    det = Detector(sys.argv[1])
    batch_size = det.inputs[0].shape[0]
    batch, total = [], 0
    for frame in synthetic_frames(64):
        batch.append(frame)
        if len(batch) == batch_size:
            total += sum(len(d) for d in det(batch))
            batch.clear()
    print("detections", total)


if __name__ == "__main__":
    main()
