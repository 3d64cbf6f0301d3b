"""Block transfers between device and host tiers, one stream per transfer."""
from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    event: torch.cuda.Event


class TransferHandler:
    def __init__(self, gpu: torch.Tensor, cpu: torch.Tensor):
        self.gpu, self.cpu = gpu, cpu
        self._stream_pool: list[torch.cuda.Stream] = []
        self._event_pool: list[torch.cuda.Event] = []
        self._running: deque[Transfer] = deque()

    def store(self, job_id: int, pairs: list[tuple[int, int]]) -> None:
        self._submit(job_id, [(self.cpu[c], self.gpu[g]) for g, c in pairs])

    def load(self, job_id: int, pairs: list[tuple[int, int]]) -> None:
        self._submit(job_id, [(self.gpu[g], self.cpu[c]) for g, c in pairs])

    def _submit(self, job_id: int, copies) -> None:
        stream = self._stream_pool.pop() if self._stream_pool else torch.cuda.Stream()
        event = self._event_pool.pop() if self._event_pool else torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        if self._running:
            stream.wait_event(self._running[-1].event)
        with torch.cuda.stream(stream):
            for dst, src in copies:
                dst.copy_(src, non_blocking=True)
            event.record(stream)
        self._running.append(Transfer(job_id, stream, event))

    def before_use(self, job_id: int) -> None:
        """Order the current stream after a job; finished jobs are a no-op."""
        for transfer in self._running:
            if transfer.job_id == job_id:
                torch.cuda.current_stream().wait_event(transfer.event)

    def get_finished(self) -> list[int]:
        done = []
        while self._running and self._running[0].event.query():
            transfer = self._running.popleft()
            self._stream_pool.append(transfer.stream)
            self._event_pool.append(transfer.event)
            done.append(transfer.job_id)
        return done


def main(blocks: int = 16, rounds: int = 40):
    gpu = torch.zeros(blocks, 64, 1024, device="cuda")
    cpu = torch.zeros(blocks * 2, 64, 1024, pin_memory=True)
    handler = TransferHandler(gpu, cpu)
    finished = 0
    for r in range(rounds):
        g, c = r % blocks, r % (2 * blocks)
        gpu[g].fill_(float(r))
        handler.store(2 * r, [(g, c)])
        handler.before_use(2 * r)
        gpu[g].zero_()
        handler.load(2 * r + 1, [(g, c)])
        handler.before_use(2 * r + 1)
        gpu[g].add_(1.0)
        finished += len(handler.get_finished())
    torch.cuda.synchronize()
    finished += len(handler.get_finished())
    print(finished, gpu[:, 0, 0].tolist())


if __name__ == "__main__":
    main()
