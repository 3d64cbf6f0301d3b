"""DALI to PyTorch feeder with two preallocated device batches."""
import ctypes

import torch
from nvidia.dali import fn, pipeline_def, types


@pipeline_def
def image_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="Reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=(224, 224))
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW",
        mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4],
    )
    return images, labels


class BatchFeeder:
    def __init__(self, root, batch_size, device_id=0, threads=4):
        self.device = torch.device("cuda", device_id)
        self.pipe = image_pipeline(
            root, batch_size=batch_size, num_threads=threads,
            device_id=device_id, prefetch_queue_depth=2,
        )
        self.pipe.build()
        self.batches = [
            torch.empty(batch_size, 3, 224, 224, device=self.device) for _ in range(2)
        ]
        self.stream = torch.cuda.Stream(self.device)
        self.copied = torch.cuda.Event()
        self.turn = 0
        self.holding = False
        for _ in range(2):
            self.pipe.schedule_run()

    def _recycle(self):
        if self.holding:
            self.copied.synchronize()
            self.pipe.release_outputs()
            self.pipe.schedule_run()
            self.holding = False

    def next(self):
        self._recycle()
        images, labels = self.pipe.share_outputs()
        self.holding = True
        dst = self.batches[self.turn]
        self.turn ^= 1
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        images.as_tensor().copy_to_external(
            ctypes.c_void_p(dst.data_ptr()),
            cuda_stream=ctypes.c_void_p(self.stream.cuda_stream),
            non_blocking=True,
        )
        self.copied.record(self.stream)
        target = torch.from_numpy(labels.as_array().copy()).view(-1).long()
        return dst, target


def train(model, root, steps, batch_size=64):
    feeder = BatchFeeder(root, batch_size)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = torch.nn.CrossEntropyLoss()
    for _ in range(steps):
        images, target = feeder.next()
        logits = model(images)
        loss = loss_fn(logits, target.to(images.device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss.item()
