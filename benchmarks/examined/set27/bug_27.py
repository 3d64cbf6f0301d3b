"""CuPy iterator over a DALI pipeline, after the plugin iterators of DALI."""
import ctypes

import cupy as cp
import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def


@pipeline_def
def train_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="Reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, device="gpu", size=(64, 64))
    images = fn.crop_mirror_normalize(images, device="gpu", dtype=types.FLOAT,
                                      mean=[127.5] * 3, std=[64.0] * 3)
    return images, labels.gpu()


_DTYPES = {types.FLOAT: np.float32, types.INT32: np.int32, types.INT64: np.int64}


def feed_ndarray(dali_tensor, arr, cuda_stream=None):
    """Copies a DALI tensor into a CuPy array."""
    assert list(dali_tensor.shape()) == list(arr.shape)
    ptr = ctypes.c_void_p(arr.data.ptr)
    stream = None if cuda_stream is None else ctypes.c_void_p(cuda_stream.ptr)
    dali_tensor.copy_to_external(ptr, stream, non_blocking=True)
    return arr


class DALICupyIterator:
    def __init__(self, pipe, output_map, size):
        self.pipe = pipe
        self.output_map = output_map
        self.size = size
        self.pipe.build()
        self.pipe.schedule_run()
        self.counter = 0

    def __iter__(self):
        return self

    def __len__(self):
        return self.size // self.pipe.max_batch_size

    def __next__(self):
        if self.counter >= len(self):
            self.counter = 0
            raise StopIteration
        self.counter += 1
        outputs = self.pipe.share_outputs()
        batch = {}
        for name, out in zip(self.output_map, outputs):
            tensor = out.as_tensor()
            arr = cp.empty(tensor.shape(), dtype=_DTYPES[tensor.dtype])
            batch[name] = feed_ndarray(tensor, arr)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch


class SoftmaxClassifier:
    def __init__(self, features, classes, lr=1e-3):
        self.w = cp.zeros((features, classes), dtype=cp.float32)
        self.classes = classes
        self.lr = np.float32(lr)

    def step(self, data, label):
        x = data.reshape(data.shape[0], -1)
        logits = x @ self.w
        logits -= logits.max(axis=1, keepdims=True)
        p = cp.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        p -= cp.eye(self.classes, dtype=cp.float32)[label.ravel()]
        self.w -= self.lr * (x.T @ p) / np.float32(x.shape[0])


def main(root="/data/imagenette/train", epochs=2):
    pipe = train_pipeline(root, batch_size=128, num_threads=4, device_id=0)
    loader = DALICupyIterator(pipe, ["data", "label"], size=9408)
    compute = cp.cuda.Stream(non_blocking=True)
    with compute:
        model = SoftmaxClassifier(3 * 64 * 64, 10)
        for _ in range(epochs):
            for batch in loader:
                model.step(batch["data"], batch["label"])
        weights = model.w.get(stream=compute)
    compute.synchronize()
    print(weights.std())


if __name__ == "__main__":
    main()
