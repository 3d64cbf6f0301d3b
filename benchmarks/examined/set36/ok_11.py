"""Two-GPU pipeline: every stage has a stream of its own and micro-batches move from GPU to GPU."""
import contextlib

import torch
import torch.nn as nn


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.stream = torch.cuda.Stream(self.device)

    def forward(self, x):
        with torch.cuda.stream(self.stream):
            return self.module(x)


@contextlib.contextmanager
def both_current(target, source):
    """Makes the streams of two stages current, the source's device last."""
    with torch.cuda.stream(target.stream), torch.cuda.stream(source.stream):
        yield


class Pipeline:
    def __init__(self, modules, devices, max_batch, classes):
        self.stages = [Stage(m, d) for m, d in zip(modules, devices)]
        self.host = torch.empty(max_batch, classes, pin_memory=True)
        for stage in self.stages:
            torch.cuda.synchronize(stage.device)

    def _move(self, x, source, target):
        with both_current(target, source):
            return x.to(target.device, non_blocking=True)

    @torch.inference_mode()
    def run_one(self, pinned):
        first = self.stages[0]
        with torch.cuda.stream(first.stream):
            x = pinned.to(first.device, non_blocking=True)
        for i, stage in enumerate(self.stages):
            if i:
                x = self._move(x, self.stages[i - 1], stage)
            x = stage.forward(x)
        return x

    @torch.inference_mode()
    def run(self, micro_batches):
        """micro_batches: pinned host tensors, at most max_batch rows in all."""
        outputs = [self.run_one(m) for m in micro_batches]
        last = self.stages[-1]
        offset = 0
        with torch.cuda.stream(last.stream):
            for y in outputs:
                self.host[offset:offset + y.shape[0]].copy_(y, non_blocking=True)
                offset += y.shape[0]
        last.stream.synchronize()
        return self.host[:offset].clone()


if __name__ == "__main__":
    width = 4096
    parts = [
        nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)),
        nn.Sequential(nn.GELU(), nn.Linear(width, 1000)),
    ]
    pipe = Pipeline(parts, ["cuda:0", "cuda:1"], 512, 1000)
    data = [torch.randn(64, width).pin_memory() for _ in range(8)]
    for _ in range(5):
        print(pipe.run(data).argmax(-1)[:6].tolist())
