"""Loads checkpoint shards from disk straight into device parameters, several lanes at a time."""
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

CHUNK = 8 << 20


class Lane:
    def __init__(self, device, chunk=CHUNK):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pin = torch.empty(chunk, dtype=torch.uint8, pin_memory=True)
        self.pin_np = self.pin.numpy()

    def load_into(self, path, dest):
        flat = dest.view(torch.uint8).view(-1)
        total = flat.numel()
        chunk = self.pin.numel()
        with open(path, "rb", buffering=0) as f, torch.cuda.stream(self.stream):
            offset = 0
            while offset < total:
                n = min(chunk, total - offset)
                f.readinto(memoryview(self.pin_np)[:n])
                flat[offset:offset + n].copy_(self.pin[:n], non_blocking=True)
                offset += n
        done = torch.cuda.Event()
        done.record(self.stream)
        return done


class ShardLoader:
    def __init__(self, device="cuda", lanes=2):
        self.device = torch.device(device)
        self.lanes = [Lane(self.device) for _ in range(lanes)]
        self.executors = [ThreadPoolExecutor(1) for _ in range(lanes)]

    def load(self, shards):
        torch.cuda.synchronize(self.device)
        pending = []
        for i, (path, dest) in enumerate(shards):
            k = i % len(self.lanes)
            pending.append(self.executors[k].submit(self.lanes[k].load_into, path, dest))
        for fut in pending:
            torch.cuda.current_stream(self.device).wait_event(fut.result())


def write_shards(root, count, numel):
    paths = []
    for i in range(count):
        path = os.path.join(root, f"shard-{i:03d}.bin")
        np.full(numel, float(i), dtype=np.float32).tofile(path)
        paths.append(path)
    return paths


def main():
    numel = 16 << 20
    with tempfile.TemporaryDirectory() as root:
        paths = write_shards(root, 4, numel)
        params = [torch.empty(numel, dtype=torch.float32, device="cuda") for _ in paths]
        loader = ShardLoader()
        loader.load(list(zip(paths, params)))
        sums = torch.stack([p.mean() for p in params])
        print(sums.tolist())


if __name__ == "__main__":
    main()
