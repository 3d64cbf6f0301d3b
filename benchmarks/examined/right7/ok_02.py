"""Per-transfer streams with pooled events for KV block movement."""
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    event: torch.cuda.Event
    cpu_blocks: list


class OffloadWorker:
    def __init__(self, gpu_kv: torch.Tensor, num_cpu_blocks: int):
        self.gpu_kv = gpu_kv
        self.cpu_kv = torch.empty((num_cpu_blocks, *gpu_kv.shape[1:]), dtype=gpu_kv.dtype, pin_memory=True)
        self._streams, self._events = [], []
        self._inflight: dict[int, Transfer] = {}
        self._free = list(range(num_cpu_blocks))
        self._stored: dict[int, int] = {}

    def _open(self, job_id, cpu_blocks):
        stream = self._streams.pop() if self._streams else torch.cuda.Stream()
        event = self._events.pop() if self._events else torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        t = Transfer(job_id, stream, event, cpu_blocks)
        self._inflight[job_id] = t
        return t

    def _close(self, t: Transfer):
        self._streams.append(t.stream)
        self._events.append(t.event)
        del self._inflight[t.job_id]

    def store(self, job_id: int, gpu_blocks: list):
        blocks = [self._free.pop() for _ in gpu_blocks]
        t = self._open(job_id, blocks)
        with torch.cuda.stream(t.stream):
            for g, c in zip(gpu_blocks, blocks):
                self.cpu_kv[c].copy_(self.gpu_kv[g], non_blocking=True)
            t.event.record()

    def finish(self, job_id: int) -> list:
        t = self._inflight[job_id]
        t.event.synchronize()
        self._close(t)
        return t.cpu_blocks

    def load(self, job_id: int, cpu_blocks: list, gpu_blocks: list):
        t = self._open(job_id, cpu_blocks)
        with torch.cuda.stream(t.stream):
            for g, c in zip(gpu_blocks, cpu_blocks):
                self.gpu_kv[g].copy_(self.cpu_kv[c], non_blocking=True)
            t.event.record()

    def admit(self, job_id: int):
        t = self._inflight[job_id]
        torch.cuda.current_stream().wait_event(t.event)

    def release(self, job_id: int):
        self._free.extend(self.finish(job_id))


def serve():
    kv = torch.zeros(64, 2, 16, 128, device="cuda", dtype=torch.half)
    w = OffloadWorker(kv, 128)
    kv[:4].normal_()
    w.store(0, [0, 1, 2, 3])
    blocks = w.finish(0)
    kv[:4].zero_()
    w.load(1, blocks, [8, 9, 10, 11])
    w.admit(1)
    score = kv[8:12].float().sum()
    w.release(1)
    return score.item()


if __name__ == "__main__":
    print(serve())
