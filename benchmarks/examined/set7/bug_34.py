import argparse
import os
import time
from dataclasses import dataclass, field
from typing import List

import torch
import torch.distributed as dist


@dataclass
class Sample:
    nbytes: int
    seconds: float
    algbw: float = 0.0
    busbw: float = 0.0


@dataclass
class Report:
    op: str
    world_size: int
    samples: List[Sample] = field(default_factory=list)

    def add(self, nbytes: int, seconds: float) -> None:
        s = Sample(nbytes, seconds)
        s.algbw = nbytes / seconds / 1e9
        s.busbw = s.algbw * 2 * (self.world_size - 1) / self.world_size
        self.samples.append(s)

    def print(self) -> None:
        for s in self.samples:
            print(f"{self.op} {s.nbytes:>12d} B {s.seconds * 1e6:10.1f} us "
                  f"{s.algbw:8.2f} GB/s {s.busbw:8.2f} GB/s")


class AllReduceBench:
    def __init__(self, device: torch.device, dtype=torch.bfloat16, warmup: int = 5, iters: int = 20):
        self.device = device
        self.dtype = dtype
        self.warmup = warmup
        self.iters = iters
        self.report = Report("all_reduce", dist.get_world_size())

    def _one(self, tensor: torch.Tensor) -> float:
        begin = time.perf_counter()
        work = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, async_op=True)
        work.wait()
        elapsed = time.perf_counter() - begin
        if not work.is_completed():
            raise RuntimeError("all_reduce did not succeed")
        return elapsed

    def run(self, sizes: List[int]) -> Report:
        for nbytes in sizes:
            numel = nbytes // torch.tensor([], dtype=self.dtype).element_size()
            tensor = torch.ones(numel, dtype=self.dtype, device=self.device)
            for _ in range(self.warmup):
                dist.all_reduce(tensor)
            torch.cuda.synchronize(self.device)
            dist.barrier()
            total = 0.0
            for _ in range(self.iters):
                total += self._one(tensor)
            self.report.add(nbytes, total / self.iters)
        return self.report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--min-bytes", type=int, default=1 << 20)
    parser.add_argument("--max-bytes", type=int, default=1 << 30)
    args = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    sizes, n = [], args.min_bytes
    while n <= args.max_bytes:
        sizes.append(n)
        n *= 2
    report = AllReduceBench(device).run(sizes)
    if dist.get_rank() == 0:
        report.print()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
