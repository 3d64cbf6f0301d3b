"""DALI batches copied into a ring of reusable torch tensors."""
from dataclasses import dataclass, field

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.pytorch import feed_ndarray


@pipeline_def(num_threads=4, device_id=0)
def images(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    pixels = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    pixels = fn.resize(pixels, size=(224, 224))
    pixels = fn.crop_mirror_normalize(pixels, dtype=types.FLOAT, output_layout="CHW")
    return pixels, labels.gpu()


@dataclass
class Slot:
    pixels: torch.Tensor
    labels: torch.Tensor
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    consumed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class RingLoader:
    def __init__(self, pipe, batch, depth=3):
        self.pipe = pipe
        self.copy = torch.cuda.Stream()
        self.slots = [
            Slot(
                torch.empty(batch, 3, 224, 224, device="cuda"),
                torch.empty(batch, 1, dtype=torch.int32, device="cuda"),
            )
            for _ in range(depth)
        ]
        self.copy.wait_stream(torch.cuda.current_stream())

    def _load(self, slot):
        pixels, labels = self.pipe.run()
        self.copy.wait_event(slot.consumed)
        feed_ndarray(pixels.as_tensor(), slot.pixels, cuda_stream=self.copy)
        feed_ndarray(labels.as_tensor(), slot.labels, cuda_stream=self.copy)
        slot.loaded.record(self.copy)
        return slot

    def batches(self, steps):
        ahead = self._load(self.slots[0])
        for step in range(steps):
            slot = ahead
            if step + 1 < steps:
                ahead = self._load(self.slots[(step + 1) % len(self.slots)])
            stream = torch.cuda.current_stream()
            stream.wait_event(slot.loaded)
            yield slot.pixels, slot.labels.squeeze(1).long()
            slot.consumed.record(stream)


def train(root="/data/train", batch=64, steps=200):
    pipe = images(root, batch_size=batch, prefetch_queue_depth=2)
    pipe.build()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 1000),
    ).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for pixels, labels in RingLoader(pipe, batch).batches(steps):
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train()[-1])
