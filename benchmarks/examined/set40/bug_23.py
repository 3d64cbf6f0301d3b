"""Batched detector: CuPy preprocessing in front of a TensorRT engine."""
import sys
from pathlib import Path

import cupy as cp
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)


class Engine:
    def __init__(self, path):
        runtime = trt.Runtime(LOGGER)
        self.engine = runtime.deserialize_cuda_engine(Path(path).read_bytes())
        self.context = self.engine.create_execution_context()
        self.inputs, self.outputs, self.buffers = [], [], {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            self.buffers[name] = cp.zeros(shape, dtype=dtype)
            self.context.set_tensor_address(name, self.buffers[name].data.ptr)
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.inputs.append(name)
            else:
                self.outputs.append(name)
        cp.cuda.Device().synchronize()


class Detector:
    def __init__(self, path, score_threshold=0.4):
        self.net = Engine(path)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.threshold = score_threshold
        self.mean = cp.asarray(MEAN, dtype=cp.float32).reshape(1, 3, 1, 1)
        self.rstd = 1.0 / cp.asarray(STD, dtype=cp.float32).reshape(1, 3, 1, 1)
        n, _, h, w = self.net.buffers[self.net.inputs[0]].shape
        self.batch, self.size = n, (h, w)

    def preprocess(self, images):
        x = cp.asarray(images).transpose(0, 3, 1, 2).astype(cp.float32)
        x -= self.mean
        x *= self.rstd
        cp.copyto(self.net.buffers[self.net.inputs[0]], x)

    def infer(self):
        if not self.net.context.execute_async_v3(self.stream.ptr):
            raise RuntimeError("enqueue failed")
        self.stream.synchronize()
        return {n: cp.asnumpy(self.net.buffers[n]) for n in self.net.outputs}

    def postprocess(self, raw):
        boxes, scores = (raw[n] for n in self.net.outputs[:2])
        kept = []
        for b, s in zip(boxes, scores):
            keep = s.reshape(-1) > self.threshold
            kept.append(b.reshape(-1, 4)[keep])
        return kept

    def __call__(self, images):
        if images.shape[0] != self.batch:
            pad = np.zeros((self.batch - images.shape[0],) + images.shape[1:], images.dtype)
            images = np.concatenate([images, pad])
        self.preprocess(images)
        return self.postprocess(self.infer())


def batches(folder, batch, size):
    files = sorted(Path(folder).glob("*.npy"))
    for i in range(0, len(files), batch):
        group = [np.load(f)[: size[0], : size[1]] for f in files[i:i + batch]]
        yield np.stack(group)


def main(engine_path, folder):
    det = Detector(engine_path)
    total = 0
    for images in batches(folder, det.batch, det.size):
        for boxes in det(images):
            total += len(boxes)
    print("boxes:", total)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
