from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    job_id: int
    stream: torch.cuda.Stream
    event: torch.cuda.Event
    index: torch.Tensor


class OffloadHandler:
    """Block copies between a device and a host cache, one direction each."""

    def __init__(self, src: torch.Tensor, dst: torch.Tensor) -> None:
        self.src, self.dst = src, dst
        self.to_host = dst.device.type == "cpu"
        self._transfers: deque[Transfer] = deque()
        self._streams: list[torch.cuda.Stream] = []
        self._events: list[torch.cuda.Event] = []

    def transfer_async(self, job_id: int, src_blocks: list[int], dst_blocks: list[int]) -> None:
        stream = self._streams.pop() if self._streams else torch.cuda.Stream()
        event = self._events.pop() if self._events else torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        if self._transfers:
            stream.wait_event(self._transfers[-1].event)
        with torch.cuda.stream(stream):
            for s, d in zip(src_blocks, dst_blocks):
                self.dst[d].copy_(self.src[s], non_blocking=True)
            event.record(stream)
        self._transfers.append(Transfer(job_id, stream, event, torch.tensor(dst_blocks)))

    def get_finished(self) -> list[int]:
        done: list[int] = []
        while self._transfers and self._transfers[0].event.query():
            t = self._transfers.popleft()
            self._streams.append(t.stream)
            self._events.append(t.event)
            done.append(t.job_id)
        return done

    def wait(self, job_ids: set[int]) -> None:
        for t in self._transfers:
            if t.job_id in job_ids:
                t.event.synchronize()


class KVCache:
    def __init__(self, blocks: int, host_blocks: int, width: int) -> None:
        self.gpu = torch.zeros(blocks, width, device="cuda")
        self.cpu = torch.zeros(host_blocks, width, pin_memory=True)
        self.store = OffloadHandler(self.gpu, self.cpu)
        self.load = OffloadHandler(self.cpu, self.gpu)


def main() -> None:
    cache = KVCache(8, 64, 4096)
    state = torch.randn(4096, device="cuda")
    for step in range(64):
        block = step % 8
        cache.gpu[block].copy_(state)
        state = torch.tanh(state * 1.01)
        cache.store.transfer_async(step, [block], [step])
        cache.store.wait({step})
        cache.store.get_finished()
    norms = []
    for step in range(0, 64, 8):
        cache.load.transfer_async(step, list(range(step, step + 8)), list(range(8)))
        cache.load.wait({step})
        cache.load.get_finished()
        norms.append(cache.gpu.norm(dim=1))
    print(torch.stack(norms).flatten().tolist()[:4])


if __name__ == "__main__":
    main()
