"""CuPy preprocessing on the null stream, TensorRT on a non-blocking one, joined by events."""
import sys

import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt

LOG = trt.Logger(trt.Logger.WARNING)


class EngineIO:
    def __init__(self, engine, context):
        self.device, self.host = {}, {}
        self.input_names, self.output_names = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            shape = tuple(engine.get_tensor_shape(name))
            dtype = np.dtype(trt.nptype(engine.get_tensor_dtype(name)))
            self.device[name] = cp.empty(shape, dtype=dtype)
            context.set_tensor_address(name, self.device[name].data.ptr)
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.input_names.append(name)
            else:
                self.output_names.append(name)
                self.host[name] = cupyx.empty_pinned(shape, dtype=dtype)


class Classifier:
    def __init__(self, plan):
        with open(plan, "rb") as f, trt.Runtime(LOG) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.io = EngineIO(self.engine, self.context)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.fed = cp.cuda.Event(disable_timing=True)
        self.drained = cp.cuda.Event(disable_timing=True)
        self.mean = cp.asarray([0.485, 0.456, 0.406], dtype=cp.float32).reshape(1, 3, 1, 1)
        self.std = cp.asarray([0.229, 0.224, 0.225], dtype=cp.float32).reshape(1, 3, 1, 1)
        self.submitted = 0

    def _preprocess(self, frames):
        x = cp.asarray(frames).transpose(0, 3, 1, 2).astype(cp.float32)
        x *= 1.0 / 255.0
        x -= self.mean
        x /= self.std
        return x

    def submit(self, frames):
        if self.submitted:
            cp.cuda.Stream.null.wait_event(self.drained)
        name = self.io.input_names[0]
        self.io.device[name][...] = self._preprocess(frames)
        self.fed.record(cp.cuda.Stream.null)
        self.stream.wait_event(self.fed)
        if not self.context.execute_async_v3(self.stream.ptr):
            raise RuntimeError("TensorRT enqueue failed")
        for out in self.io.output_names:
            self.io.device[out].get(stream=self.stream, out=self.io.host[out], blocking=False)
        self.drained.record(self.stream)
        self.submitted += 1

    def collect(self):
        self.drained.synchronize()
        return {name: self.io.host[name].copy() for name in self.io.output_names}

    def top5(self, frames):
        self.submit(frames)
        logits = next(iter(self.collect().values()))
        return np.argsort(-logits, axis=1)[:, :5]


def synthetic(batches, size, side=224):
    rng = np.random.default_rng(0)
    for _ in range(batches):
        yield rng.integers(0, 255, (size, side, side, 3), dtype=np.uint8)


def main():
    clf = Classifier(sys.argv[1])
    size = clf.io.device[clf.io.input_names[0]].shape[0]
    votes = np.zeros(1000, dtype=np.int64)
    for frames in synthetic(50, size):
        for row in clf.top5(frames):
            votes[row] += 1
    print("most frequent", np.argsort(-votes)[:5].tolist())


if __name__ == "__main__":
    main()
