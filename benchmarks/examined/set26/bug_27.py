"""Iterator that hands DALI batches to a CuPy based model."""
import ctypes
import cupy as cp
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def


@pipeline_def
def train_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True)
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=(224, 224))
    return images, labels.gpu()


def feed_ndarray(dali_tensor, arr, cuda_stream=None):
    """Copy contents of a DALI tensor to a CuPy array."""
    if tuple(dali_tensor.shape()) != arr.shape:
        raise ValueError("shapes do not match")
    ptr = ctypes.c_void_p(arr.data.ptr)
    stream = None if cuda_stream is None else ctypes.c_void_p(cuda_stream)
    dali_tensor.copy_to_external(ptr, stream, non_blocking=True)
    return arr


class DALICupyIterator:
    def __init__(self, pipe, batch_size):
        self.pipe = pipe
        self.batch_size = batch_size
        self.pipe.build()
        self.images = cp.empty((batch_size, 224, 224, 3), dtype=cp.uint8)
        self.labels = cp.empty((batch_size, 1), dtype=cp.int32)
        self.pipe.schedule_run()

    def __iter__(self):
        return self

    def __next__(self):
        images, labels = self.pipe.share_outputs()
        feed_ndarray(images.as_tensor(), self.images)
        feed_ndarray(labels.as_tensor(), self.labels)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return self.images, self.labels


class LinearProbe:
    def __init__(self, classes):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.w = cp.zeros((224 * 224 * 3, classes), dtype=cp.float32)

    def normalize(self, images):
        return images.astype(cp.float32) / 127.5 - 1.0

    def accuracy(self, images, labels):
        with self.stream:
            x = self.normalize(images).reshape(images.shape[0], -1)
            pred = (x @ self.w).argmax(axis=1)
            hits = (pred == labels[:, 0]).sum()
            return int(hits)


def main(root="/data/train", batch_size=64, steps=100):
    pipe = train_pipeline(root, batch_size=batch_size, num_threads=4, device_id=0)
    probe = LinearProbe(1000)
    total = 0
    for i, (images, labels) in enumerate(DALICupyIterator(pipe, batch_size)):
        total += probe.accuracy(images, labels)
        if i + 1 == steps:
            break
    print(total / (steps * batch_size))


if __name__ == "__main__":
    main()
