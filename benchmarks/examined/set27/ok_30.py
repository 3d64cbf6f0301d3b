"""Feeds a PyTorch model from a DALI pipeline with a copy stream and two fixed batches."""
import torch
import torch.nn as nn
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def
def classification(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="Reader")
    images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, device="gpu", size=(224, 224))
    images = fn.crop_mirror_normalize(
        images, device="gpu", dtype=types.FLOAT, output_layout="CHW",
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255], std=[0.229 * 255, 0.224 * 255, 0.225 * 255])
    return images, fn.cast(labels, dtype=types.INT64).gpu()


class Slot:
    def __init__(self, batch_size, device):
        self.images = torch.empty(batch_size, 3, 224, 224, device=device)
        self.labels = torch.empty(batch_size, 1, dtype=torch.int64, device=device)
        self.filled = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class BatchFeeder:
    """One batch ahead: slot k is filled while the model works on the other slot."""

    def __init__(self, pipe, batch_size, device):
        self.pipe = pipe
        self.pipe.build()
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = [Slot(batch_size, device) for _ in range(2)]
        torch.cuda.synchronize(device)
        self.pipe.schedule_run()
        self.fill_index = 0
        self.take_index = 0

    def _fill(self):
        slot = self.slots[self.fill_index % 2]
        self.fill_index += 1
        images, labels = self.pipe.share_outputs()
        self.copy_stream.wait_event(slot.consumed)
        feed_ndarray(images.as_tensor(), slot.images, cuda_stream=self.copy_stream)
        feed_ndarray(labels.as_tensor(), slot.labels, cuda_stream=self.copy_stream)
        slot.filled.record(self.copy_stream)
        self.copy_stream.synchronize()
        self.pipe.release_outputs()
        self.pipe.schedule_run()

    def batches(self, count):
        self._fill()
        for i in range(count):
            slot = self.slots[self.take_index % 2]
            self.take_index += 1
            current = torch.cuda.current_stream()
            current.wait_event(slot.filled)
            yield slot.images, slot.labels.view(-1)
            slot.consumed.record(torch.cuda.current_stream())
            if i + 1 < count:
                self._fill()


def main(root="/data/imagenet/train", batch_size=128, steps=500):
    device = torch.device("cuda", 0)
    pipe = classification(root, batch_size=batch_size, num_threads=8, device_id=0)
    feeder = BatchFeeder(pipe, batch_size, device)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (images, labels) in enumerate(feeder.batches(steps)):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
