"""Filesystem writer fed from a device-to-host staging pass."""
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.nn as nn


class FileSystemWriterAsync:
    def __init__(self, root, workers=2):
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.pool = ThreadPoolExecutor(workers)
        self.futures = []

    @staticmethod
    def preload(state_dict):
        return [
            (key, value.detach().to("cpu", non_blocking=True))
            for key, value in state_dict.items()
        ]

    def _write_bucket(self, path, bucket):
        with open(path, "wb") as f:
            for key, tensor in bucket:
                f.write(key.encode() + b"\0")
                f.write(tensor.contiguous().numpy().tobytes())

    def schedule(self, step, state_dict):
        bucket = self.preload(state_dict)
        path = self.root / f"shard_{step}.bin"
        self.futures.append(self.pool.submit(self._write_bucket, path, bucket))

    def finalize(self):
        for future in self.futures:
            future.result()
        self.futures.clear()


def train(total_steps=500, interval=50):
    model = nn.TransformerEncoderLayer(1024, 16, batch_first=True).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    writer = FileSystemWriterAsync("checkpoints")
    for step in range(total_steps):
        x = torch.randn(8, 128, 1024, device="cuda")
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
        if step and step % interval == 0:
            writer.finalize()
            writer.schedule(step, model.state_dict())
    writer.finalize()


if __name__ == "__main__":
    train()
