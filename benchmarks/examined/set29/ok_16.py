"""A block pool whose frees carry a fence: reuse on another stream waits for it."""
from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

import torch


@dataclass(eq=False)
class PoolBlock:
    data: torch.Tensor
    owner: int = 0
    fence: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class FencedPool:
    def __init__(self) -> None:
        self._free: dict[int, list[PoolBlock]] = defaultdict(list)
        self._lock = threading.Lock()

    @staticmethod
    def _bucket(nbytes: int) -> int:
        return 1 << max(nbytes - 1, 511).bit_length()

    def acquire(self, shape: tuple[int, ...], dtype: torch.dtype) -> "PooledTensor":
        numel = 1
        for s in shape:
            numel *= s
        nbytes = numel * dtype.itemsize
        bucket = self._bucket(nbytes)
        stream = torch.cuda.current_stream()
        with self._lock:
            candidates = self._free[bucket]
            same = [b for b in candidates if b.owner == stream.cuda_stream]
            block = same[-1] if same else (candidates[0] if candidates else None)
            if block is not None:
                candidates.remove(block)
        if block is None:
            block = PoolBlock(torch.empty(bucket, dtype=torch.uint8, device="cuda"))
        elif block.owner != stream.cuda_stream:
            stream.wait_event(block.fence)
        block.owner = stream.cuda_stream
        return PooledTensor(self, block, block.data[:nbytes].view(dtype).view(shape))

    def release(self, block: PoolBlock) -> None:
        block.fence.record(torch.cuda.current_stream())
        with self._lock:
            self._free[self._bucket(block.data.numel())].append(block)


@dataclass(eq=False)
class PooledTensor:
    pool: FencedPool
    block: PoolBlock
    data: torch.Tensor

    def __enter__(self) -> torch.Tensor:
        return self.data

    def __exit__(self, *exc) -> None:
        self.pool.release(self.block)


class ConvStage:
    def __init__(self, pool: FencedPool, channels: int) -> None:
        self.pool = pool
        self.kernel = torch.randn(channels, channels, 3, 3, device="cuda") * 0.05
        self.channels = channels

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        with self.pool.acquire((n, c * 9, h * w), x.dtype) as columns:
            columns.copy_(torch.nn.functional.unfold(x, 3, padding=1))
            flat = self.kernel.view(self.channels, -1).expand(n, -1, -1)
            out = torch.bmm(flat, columns)
        return torch.relu(out).view(n, self.channels, h, w)


@torch.inference_mode()
def worker(stages: list[ConvStage], images: list[torch.Tensor], results: list, index: int) -> None:
    stream = torch.cuda.Stream()
    total = 0.0
    with torch.cuda.stream(stream):
        for image in images:
            x = image.to("cuda")
            for stage in stages:
                x = stage(x)
            total += x.mean().item()
    results[index] = total


def main() -> None:
    pool = FencedPool()
    stages = [ConvStage(pool, 16) for _ in range(6)]
    torch.cuda.synchronize()
    results = [0.0] * 4
    threads = []
    for i in range(4):
        images = [torch.randn(2, 16, 128, 128) for _ in range(20)]
        threads.append(threading.Thread(target=worker, args=(stages, images, results, i)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(results)


if __name__ == "__main__":
    main()
