"""Loads a sharded checkpoint through two pinned staging buffers."""
import json
import pathlib

import numpy as np
import torch
import torch.nn as nn


class StagingBuffer:
    def __init__(self, nbytes):
        self.tensor = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.array = self.tensor.numpy()
        self.copied = torch.cuda.Event()

    def acquire(self):
        self.copied.synchronize()
        return self.array

    def upload(self, destination, nbytes, stream):
        with torch.cuda.stream(stream):
            flat = destination.detach().view(-1).view(torch.uint8)
            flat.copy_(self.tensor[:nbytes], non_blocking=True)
            self.copied.record(stream)


class ShardLoader:
    def __init__(self, directory, chunk=64 << 20):
        self.directory = pathlib.Path(directory)
        self.index = json.loads((self.directory / "index.json").read_text())
        self.buffers = [StagingBuffer(chunk), StagingBuffer(chunk)]
        self.stream = torch.cuda.Stream()

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        return self

    def __exit__(self, *exc):
        torch.cuda.current_stream().wait_stream(self.stream)

    def load(self, module):
        for turn, (name, tensor) in enumerate(module.state_dict().items()):
            meta = self.index[name]
            buffer = self.buffers[turn % 2]
            target = buffer.acquire()
            with open(self.directory / meta["file"], "rb") as f:
                f.seek(meta["offset"])
                f.readinto(memoryview(target)[:meta["nbytes"]])
            buffer.upload(tensor, meta["nbytes"], self.stream)


def finetune(directory, steps=100):
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(16)]).cuda()
    with ShardLoader(directory) as loader:
        loader.load(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(steps):
        x = torch.randn(32, 2048, device="cuda")
        (model(x) - x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.save(model.state_dict(), "finetuned.pt")


if __name__ == "__main__":
    finetune("/checkpoints/base")
