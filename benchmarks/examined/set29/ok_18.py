"""Producer and consumer processes share a device buffer and order it with IPC events."""
from __future__ import annotations

import torch
import torch.multiprocessing as mp

CHUNK = 1 << 22


class EventBackend:
    """Creates interprocess events and reopens them on the other side."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def create(self) -> torch.cuda.Event:
        return torch.cuda.Event(enable_timing=False, interprocess=True)

    def export(self, event: torch.cuda.Event) -> bytes:
        return event.ipc_handle()

    def open(self, handle: bytes) -> torch.cuda.Event:
        return torch.cuda.Event.from_ipc_handle(self.device, handle)


def producer(device_index: int, chunks: int, work_q: mp.Queue, ack_q: mp.Queue) -> None:
    device = torch.device("cuda", device_index)
    torch.cuda.set_device(device)
    backend = EventBackend(device)
    stream = torch.cuda.Stream(device)
    buffers = [torch.zeros(CHUNK, device=device) for _ in range(2)]
    stream.wait_stream(torch.cuda.current_stream(device))
    work_q.put(buffers)
    events = []
    for i in range(chunks):
        slot = i % 2
        if i >= 2:
            done_handle = ack_q.get()
            stream.wait_event(backend.open(done_handle))
        with torch.cuda.stream(stream):
            noise = torch.rand(CHUNK, device=device)
            buffers[slot].copy_(noise).mul_(0.5).add_(float(i))
            event = backend.create()
            event.record(stream)
        events.append(event)
        work_q.put((i, slot, backend.export(event)))
    for _ in range(min(2, chunks)):
        ack_q.get()
    work_q.put(None)
    stream.synchronize()
    ack_q.get()


def consumer(device_index: int, work_q: mp.Queue, ack_q: mp.Queue, result_q: mp.Queue) -> None:
    device = torch.device("cuda", device_index)
    torch.cuda.set_device(device)
    backend = EventBackend(device)
    buffers = work_q.get()
    stream = torch.cuda.Stream(device)
    means, held = [], []
    with torch.cuda.stream(stream):
        while (item := work_q.get()) is not None:
            index, slot, handle = item
            ready = backend.open(handle)
            stream.wait_event(ready)
            means.append((index, buffers[slot].double().mean()))
            done = backend.create()
            done.record(stream)
            held.append((ready, done))
            ack_q.put(backend.export(done))
        values = [(i, m.item()) for i, m in means]
    stream.synchronize()
    held.clear()
    result_q.put(values)
    del buffers
    torch.cuda.ipc_collect()
    ack_q.put(b"closed")


def main() -> None:
    ctx = mp.get_context("spawn")
    work_q, ack_q, result_q = ctx.Queue(), ctx.Queue(), ctx.Queue()
    procs = [
        ctx.Process(target=producer, args=(0, 16, work_q, ack_q)),
        ctx.Process(target=consumer, args=(0, work_q, ack_q, result_q)),
    ]
    for p in procs:
        p.start()
    for i, value in result_q.get():
        print(i, value)
    for p in procs:
        p.join()


if __name__ == "__main__":
    main()
