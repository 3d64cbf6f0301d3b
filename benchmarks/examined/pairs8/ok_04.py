from dataclasses import dataclass, field

import torch


@dataclass
class Transfer:
    gpu_blocks: list
    cpu_blocks: list
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class CacheEngine:
    def __init__(self, gpu_blocks=256, cpu_blocks=1024, block_elems=16 * 1024):
        self.gpu = torch.zeros(gpu_blocks, block_elems, dtype=torch.float16, device="cuda")
        self.cpu = torch.zeros(cpu_blocks, block_elems, dtype=torch.float16, pin_memory=True)
        self.free_gpu = list(range(gpu_blocks))
        self.free_cpu = list(range(cpu_blocks))
        self.cache_stream = torch.cuda.Stream()
        self.stores = []

    def allocate(self, n):
        while len(self.free_gpu) < n:
            self._reap()
        return [self.free_gpu.pop() for _ in range(n)]

    def swap_out(self, blocks):
        job = Transfer(blocks, [self.free_cpu.pop() for _ in blocks])
        self.cache_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.cache_stream):
            for g, c in zip(job.gpu_blocks, job.cpu_blocks):
                self.cpu[c].copy_(self.gpu[g], non_blocking=True)
            job.done.record()
        self.stores.append(job)
        return job

    def _reap(self):
        job = self.stores.pop(0)
        job.done.synchronize()
        self.free_gpu.extend(job.gpu_blocks)

    def swap_in(self, job):
        blocks = self.allocate(len(job.cpu_blocks))
        self.cache_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.cache_stream):
            for g, c in zip(blocks, job.cpu_blocks):
                self.gpu[g].copy_(self.cpu[c], non_blocking=True)
            loaded = torch.cuda.Event()
            loaded.record()
        torch.cuda.current_stream().wait_event(loaded)
        return blocks


def attend(cache, blocks):
    idx = torch.tensor(blocks, device="cuda")
    cache.gpu[idx] += 1.0
    return cache.gpu[idx].float().sum()


def main():
    cache = CacheEngine()
    parked, totals = [], []
    for step in range(12):
        blocks = cache.allocate(64)
        totals.append(attend(cache, blocks))
        parked.append(cache.swap_out(blocks))
        if step % 3 == 2:
            back = cache.swap_in(parked.pop(0))
            totals.append(attend(cache, back))
            parked.append(cache.swap_out(back))
    print(torch.stack(totals).tolist())


if __name__ == "__main__":
    main()
