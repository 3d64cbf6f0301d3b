"""TensorRT segmentation service fed from CuPy arrays."""
import sys
from pathlib import Path

import cupy as cp
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


class SegmentationNet:
    def __init__(self, path):
        blob = Path(path).read_bytes()
        self.engine = trt.Runtime(LOGGER).deserialize_cuda_engine(blob)
        self.context = self.engine.create_execution_context()
        self.stream = cp.cuda.Stream()
        self.bindings = {}
        self.input_name = self.output_name = None
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            arr = cp.empty(tuple(self.engine.get_tensor_shape(name)), dtype=dtype)
            self.bindings[name] = arr
            self.context.set_tensor_address(name, arr.data.ptr)
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.input_name = name
            else:
                self.output_name = name

    @property
    def input(self):
        return self.bindings[self.input_name]

    @property
    def output(self):
        return self.bindings[self.output_name]

    def enqueue(self):
        ok = self.context.execute_async_v3(self.stream.ptr)
        if not ok:
            raise RuntimeError("TensorRT enqueue failed")


class Segmenter:
    def __init__(self, net, classes):
        self.net = net
        self.classes = classes
        self.areas = np.zeros(classes, dtype=np.int64)

    def load(self, image):
        x = cp.asarray(image, dtype=cp.float32).transpose(2, 0, 1)[None]
        x = x / 127.5 - 1.0
        self.net.input[...] = x

    def labels(self):
        return cp.argmax(self.net.output[0], axis=0).astype(cp.uint8)

    def run(self, image):
        self.load(image)
        self.net.enqueue()
        lab = self.labels()
        counts = cp.bincount(lab.ravel(), minlength=self.classes)
        self.areas += cp.asnumpy(counts)
        return cp.asnumpy(lab)


def main(engine_path, folder):
    seg = Segmenter(SegmentationNet(engine_path), classes=21)
    out = Path(folder) / "labels"
    out.mkdir(exist_ok=True)
    for f in sorted(Path(folder).glob("*.npy")):
        lab = seg.run(np.load(f))
        np.save(out / f.name, lab)
    for c, area in enumerate(seg.areas):
        if area:
            print(f"class {c:2d}: {area} px")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
