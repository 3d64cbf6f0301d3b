"""Torch features post-processed by CuPy through DLPack on separate streams."""
import cupy as cp
import torch
from torch import nn

_NMS_SCORE = cp.ElementwiseKernel(
    "float32 s, float32 d", "float32 out",
    "out = s * expf(-0.5f * d * d)", "soft_score")


class CupyStage:
    """Runs CuPy code on its own stream between two torch operations."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def soften(self, scores, distances):
        """Called with the producer's torch stream current; returns a torch tensor
        ordered on that same stream."""
        with self.stream:
            s = cp.from_dlpack(scores)
            d = cp.from_dlpack(distances)
            out = _NMS_SCORE(s, d)
            out /= cp.maximum(out.max(axis=1, keepdims=True), 1e-6)
            return torch.from_dlpack(out)


class Worker:
    def __init__(self, seed, width):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.stream = torch.cuda.Stream()
        self.stage = CupyStage()
        self.total = torch.zeros((), device="cuda")
        self.proj = torch.randn(width, width, device="cuda", generator=generator) / width ** 0.5
        self.stream.wait_stream(torch.cuda.current_stream())

    def process(self, features, ready):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            hidden = features @ self.proj
            features.record_stream(self.stream)
            scores = hidden.sigmoid()
            distances = (hidden - hidden.mean(dim=1, keepdim=True)).contiguous()
            soft = self.stage.soften(scores, distances)
            self.total += (soft * scores).sum()
            del soft


class FeatureSource:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(width, width), nn.GELU()).cuda()
        self.width = width

    @torch.no_grad()
    def next(self):
        features = self.net(torch.randn(2048, self.width, device="cuda"))
        ready = torch.cuda.Event()
        ready.record()
        return features, ready


@torch.no_grad()
def main():
    torch.manual_seed(0)
    width = 1024
    source = FeatureSource(width)
    workers = [Worker(seed, width) for seed in range(3)]
    for step in range(30):
        features, ready = source.next()
        workers[step % len(workers)].process(features, ready)
        del features
    current = torch.cuda.current_stream()
    for worker in workers:
        current.wait_stream(worker.stream)
    print([worker.total.item() for worker in workers])


if __name__ == "__main__":
    main()
