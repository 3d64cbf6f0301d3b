"""KV block offloading with separate store and load streams."""
from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    rid: str
    gpu: list
    cpu: list
    event: torch.cuda.Event


class OffloadWorker:
    def __init__(self, gpu_cache, cpu_blocks):
        self.gpu_cache = gpu_cache
        self.cpu_cache = torch.empty(
            (cpu_blocks, *gpu_cache.shape[1:]), dtype=gpu_cache.dtype, pin_memory=True
        )
        self.free_gpu = deque(range(gpu_cache.shape[0]))
        self.free_cpu = deque(range(cpu_blocks))
        self.store_stream = torch.cuda.Stream()
        self.load_stream = torch.cuda.Stream()
        self.compute_done = torch.cuda.Event()
        self.stores = deque()
        self.loads = deque()
        self.stored = {}
        self.resident = {}

    def allocate(self, rid, count):
        self.resident[rid] = [self._pop_gpu() for _ in range(count)]
        return self.resident[rid]

    def _pop_gpu(self):
        while not self.free_gpu:
            self.stores[0].event.synchronize()
            self.poll()
        return self.free_gpu.popleft()

    def begin_step(self):
        self.compute_done.record()
        self.store_stream.wait_event(self.compute_done)
        self.load_stream.wait_event(self.compute_done)
        self.poll()

    def offload(self, rid):
        gpu = self.resident.pop(rid)
        cpu = [self.free_cpu.popleft() for _ in gpu]
        with torch.cuda.stream(self.store_stream):
            for src, dst in zip(gpu, cpu):
                self.cpu_cache[dst].copy_(self.gpu_cache[src], non_blocking=True)
            job = Transfer(rid, gpu, cpu, self.store_stream.record_event())
        self.stores.append(job)
        self.stored[rid] = job

    def restore(self, rid):
        job = self.stored.pop(rid)
        gpu = self.allocate(rid, len(job.cpu))
        with torch.cuda.stream(self.load_stream):
            self.load_stream.wait_event(job.event)
            for src, dst in zip(job.cpu, gpu):
                self.gpu_cache[dst].copy_(self.cpu_cache[src], non_blocking=True)
            event = self.load_stream.record_event()
        self.loads.append(Transfer(rid, gpu, job.cpu, event))
        torch.cuda.current_stream().wait_event(event)

    def poll(self):
        while self.stores and self.stores[0].event.query():
            self.free_gpu.extend(self.stores.popleft().gpu)
        while self.loads and self.loads[0].event.query():
            self.free_cpu.extend(self.loads.popleft().cpu)


def decode(cache, blocks, weight):
    for b in blocks:
        cache[b] = torch.tanh(cache[b] @ weight)


@torch.inference_mode()
def main(rounds=12):
    cache = torch.zeros(16, 64, 64, device="cuda")
    weight = torch.randn(64, 64, device="cuda") / 8
    worker = OffloadWorker(cache, cpu_blocks=64)
    for rid in ("a", "b", "c"):
        blocks = worker.allocate(rid, 4)
        for n, b in enumerate(blocks):
            cache[b].fill_(n + 1)
    order = ["a", "b", "c"]
    for step in range(rounds):
        worker.begin_step()
        worker.offload(order[step % 3])
        active = [r for r in order if r in worker.resident]
        for rid in active:
            decode(cache, worker.resident[rid], weight)
        worker.begin_step()
        worker.restore(order[step % 3])
    return {rid: cache[blocks].mean().item() for rid, blocks in worker.resident.items()}


if __name__ == "__main__":
    print(main())
