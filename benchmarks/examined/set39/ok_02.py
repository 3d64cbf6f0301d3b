"""Loads checkpoint shards with two host slabs per lane."""
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

CHUNK = 8 << 20


class Slab:
    def __init__(self, size):
        self.tensor = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self.view = memoryview(self.tensor.numpy())
        self.copied = torch.cuda.Event()
        self.busy = False

    def acquire(self):
        if self.busy:
            self.copied.synchronize()
            self.busy = False
        return self.view

    def release(self, stream):
        self.copied.record(stream)
        self.busy = True


class Lane:
    def __init__(self, device, chunk=CHUNK):
        self.stream = torch.cuda.Stream(device)
        self.chunk = chunk
        self.slabs = [Slab(chunk), Slab(chunk)]

    def load_into(self, path, dest):
        flat = dest.view(torch.uint8).view(-1)
        offset, turn = 0, 0
        with open(path, "rb", buffering=0) as f:
            while offset < flat.numel():
                n = min(self.chunk, flat.numel() - offset)
                slab = self.slabs[turn]
                f.readinto(slab.acquire()[:n])
                with torch.cuda.stream(self.stream):
                    flat[offset:offset + n].copy_(slab.tensor[:n], non_blocking=True)
                slab.release(self.stream)
                offset += n
                turn ^= 1
        return self.stream.record_event()


class ShardLoader:
    def __init__(self, device="cuda", lanes=2):
        self.device = torch.device(device)
        self.lanes = [Lane(self.device) for _ in range(lanes)]
        self.executors = [ThreadPoolExecutor(1) for _ in range(lanes)]

    def load(self, shards):
        torch.cuda.synchronize(self.device)
        futures = []
        for i, (path, dest) in enumerate(shards):
            k = i % len(self.lanes)
            futures.append(self.executors[k].submit(self.lanes[k].load_into, path, dest))
        for fut in futures:
            torch.cuda.current_stream(self.device).wait_event(fut.result())


def main():
    numel = 16 << 20
    with tempfile.TemporaryDirectory() as root:
        shards = []
        for i in range(4):
            path = os.path.join(root, f"shard-{i:03d}.bin")
            np.full(numel, float(i), dtype=np.float32).tofile(path)
            shards.append((path, torch.empty(numel, dtype=torch.float32, device="cuda")))
        ShardLoader().load(shards)
        print(torch.stack([p.mean() for _, p in shards]).tolist())


if __name__ == "__main__":
    main()
