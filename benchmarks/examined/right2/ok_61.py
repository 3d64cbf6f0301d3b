"""Synthetic GPU frames fed to a DALI pipeline on the producer's stream."""
import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def


class FrameSource:
    """Callable that renders each batch in place."""

    def __init__(self, batch, height, width):
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            ys = torch.linspace(0, 1, height, device="cuda").view(1, -1, 1, 1)
            xs = torch.linspace(0, 1, width, device="cuda").view(1, 1, -1, 1)
            self.phase = (ys + xs).expand(batch, height, width, 3).contiguous()
            self.frame = torch.empty(batch, height, width, 3, dtype=torch.uint8, device="cuda")
        self.tick = 0

    def __call__(self):
        self.tick += 1
        with torch.cuda.stream(self.stream):
            wave = torch.sin(self.phase * self.tick * 0.1)
            self.frame.copy_(wave.mul_(127.0).add_(128.0).clamp_(0, 255))
        return self.frame


@pipeline_def(num_threads=2, device_id=0)
def augment(source):
    frames = fn.external_source(
        source=source, device="gpu", layout="HWC", cuda_stream=source.stream, no_copy=False
    )
    frames = fn.rotate(frames, angle=fn.random.uniform(range=(-15.0, 15.0)), fill_value=0)
    frames = fn.resize(frames, size=(128, 128))
    return fn.cast(frames, dtype=types.FLOAT)


def statistics(batch=8, steps=20):
    source = FrameSource(batch, 256, 256)
    pipe = augment(source, batch_size=batch)
    pipe.build()
    means = []
    for _ in range(steps):
        (frames,) = pipe.run()
        means.append(np.asarray(frames.as_cpu().as_tensor()).mean())
    return means


if __name__ == "__main__":
    print(statistics())
