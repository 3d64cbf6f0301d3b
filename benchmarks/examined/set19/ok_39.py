"""One captured encoder shared by request threads that run on their own streams."""
import queue
import threading

import torch
from torch import nn


class SharedGraphRunner:
    """Static buffers and a graph; callers are serialised on host and device."""

    def __init__(self, fn, example):
        self._lock = threading.Lock()
        self._idle = torch.cuda.Event()
        self._static_in = torch.zeros_like(example)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                fn(self._static_in)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._static_out = fn(self._static_in)
        torch.cuda.synchronize()
        self._idle.record()

    def run(self, x):
        """Replay on the caller's current stream; the result belongs to that stream."""
        rows = x.shape[0]
        with self._lock:
            current = torch.cuda.current_stream()
            current.wait_event(self._idle)
            self._static_in.zero_()
            self._static_in[:rows].copy_(x)
            self._graph.replay()
            out = self._static_out[:rows].clone()
            self._idle.record(current)
        return out


class RequestWorker(threading.Thread):
    def __init__(self, name, runner, inbox, outbox, width):
        super().__init__(name=name, daemon=True)
        self.runner = runner
        self.inbox = inbox
        self.outbox = outbox
        self.width = width

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(0)
        stream = torch.cuda.Stream()
        done = torch.cuda.Event()
        upload = torch.empty(64, self.width, pin_memory=True)
        download = torch.empty(64, self.width, pin_memory=True)
        with torch.cuda.stream(stream):
            while True:
                item = self.inbox.get()
                if item is None:
                    return
                ticket, rows = item
                n = rows.shape[0]
                upload[:n].copy_(rows)
                x = upload[:n].to("cuda", non_blocking=True)
                y = self.runner.run(x)
                download[:n].copy_(y, non_blocking=True)
                done.record()
                done.synchronize()
                self.outbox.put((ticket, download[:n].sum().item()))


@torch.no_grad()
def main():
    torch.manual_seed(0)
    width = 1024
    encoder = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                            nn.Linear(4 * width, width)).cuda().eval()
    runner = SharedGraphRunner(encoder, torch.zeros(64, width, device="cuda"))
    inbox, outbox = queue.Queue(), queue.Queue()
    workers = [RequestWorker(f"req-{i}", runner, inbox, outbox, width) for i in range(3)]
    for worker in workers:
        worker.start()
    for ticket in range(120):
        inbox.put((ticket, torch.randn(1 + ticket % 64, width)))
    results = dict(outbox.get() for _ in range(120))
    for _ in workers:
        inbox.put(None)
    for worker in workers:
        worker.join()
    print(sum(results.values()))


if __name__ == "__main__":
    main()
