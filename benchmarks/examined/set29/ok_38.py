"""Classifier on DALI output without a host round trip: the batch is copied
into the engine's binding on the stream that executes the engine."""
import ctypes

import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(batch_size=32, num_threads=6, device_id=0, prefetch_queue_depth=2)
def loader(root):
    jpegs, labels = fn.readers.file(file_root=root, name="reader")
    img = fn.decoders.image(jpegs, device="mixed")
    img = fn.resize(img, resize_shorter=256)
    img = fn.crop_mirror_normalize(img, crop=(224, 224), dtype=types.FLOAT,
                                   mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
    return img, labels


class Classifier:
    def __init__(self, plan):
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.x = cp.empty(tuple(self.engine.get_tensor_shape("x")), dtype=cp.float32)
            self.logits = cp.empty(tuple(self.engine.get_tensor_shape("logits")), dtype=cp.float32)
        self.top1 = cupyx.empty_pinned((self.logits.shape[0],), dtype=np.int64)
        self.context.set_tensor_address("x", self.x.data.ptr)
        self.context.set_tensor_address("logits", self.logits.data.ptr)
        self.consumed = cp.cuda.Event(disable_timing=True)
        self.finished = cp.cuda.Event(disable_timing=True)

    def enqueue(self, images):
        tensor = images.as_tensor()
        tensor.copy_to_external(ctypes.c_void_p(self.x.data.ptr),
                                cuda_stream=ctypes.c_void_p(self.stream.ptr), non_blocking=True)
        self.consumed.record(self.stream)
        self.context.execute_async_v3(self.stream.ptr)
        with self.stream:
            best = self.logits.argmax(axis=1)
            best.get(stream=self.stream, out=self.top1, blocking=False)
        self.finished.record(self.stream)
        return tensor

    def result(self):
        self.finished.synchronize()
        return self.top1.copy()


def evaluate(root, plan):
    pipe = loader(root)
    pipe.build()
    model = Classifier(plan)
    n = pipe.epoch_size("reader") // 32
    hits = 0
    pipe.schedule_run()
    for _ in range(n):
        images, labels = pipe.share_outputs()
        keep = model.enqueue(images)
        target = np.array(labels.as_array()).reshape(-1)
        model.consumed.synchronize()
        del keep, images, labels
        pipe.release_outputs()
        pipe.schedule_run()
        hits += int((model.result() == target).sum())
    return hits / (n * 32)


if __name__ == "__main__":
    print(evaluate("imagenet/val", "resnet50.plan"))
