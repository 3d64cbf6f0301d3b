"""Asynchronous sampling output: tokens leave on a copy stream, a thread detokenises them."""
import queue
import threading

import numpy as np
import torch
import torch.nn as nn


class AsyncOutput:
    def __init__(self, req_ids, sampled, copy_stream):
        self.req_ids = req_ids
        self._sampled = sampled
        self._ready = torch.cuda.Event()
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(compute)
            self._cpu = sampled.to("cpu", non_blocking=True)
            self._ready.record(copy_stream)

    def get(self):
        self._ready.synchronize()
        self._sampled = None
        return dict(zip(self.req_ids, self._cpu.tolist()))


class AcceptedCounts:
    """Counts that the host needs one step later; guarded by an event."""

    def __init__(self, n):
        self.cpu = torch.zeros(n, dtype=torch.int32, pin_memory=True)
        self.np = self.cpu.numpy()
        self.event = torch.cuda.Event()
        self.pending = False

    def store(self, counts):
        self.cpu[:counts.numel()].copy_(counts, non_blocking=True)
        self.event.record()
        self.pending = True

    def read(self, n):
        if self.pending:
            self.event.synchronize()
            self.pending = False
        return self.np[:n].copy()


class TinyLM(nn.Module):
    def __init__(self, vocab=32000, dim=1024):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tok, h):
        h = self.rnn(self.emb(tok), h)
        return self.head(h), h


class Runner:
    def __init__(self, n=64):
        self.model = TinyLM().cuda().eval()
        self.n = n
        self.tok = torch.zeros(n, dtype=torch.int64, device="cuda")
        self.h = torch.zeros(n, 1024, device="cuda")
        self.copy_stream = torch.cuda.Stream()
        self.counts = AcceptedCounts(n)
        self.lengths = np.zeros(n, dtype=np.int64)

    @torch.inference_mode()
    def step(self):
        self.lengths += self.counts.read(self.n)
        logits, self.h = self.model(self.tok, self.h)
        top = logits.topk(2, dim=-1)
        self.tok = top.indices[:, 0].contiguous()
        margin = (top.values[:, 0] - top.values[:, 1]) > 0.01
        self.counts.store(margin.to(torch.int32) + 1)
        return AsyncOutput(list(range(self.n)), self.tok, self.copy_stream)


def detokenise(inbox, sink):
    while True:
        out = inbox.get()
        if out is None:
            return
        for rid, tok in out.get().items():
            sink.setdefault(rid, []).append(tok)


def main(steps=100):
    torch.manual_seed(0)
    runner = Runner()
    inbox, sink = queue.Queue(maxsize=4), {}
    t = threading.Thread(target=detokenise, args=(inbox, sink))
    t.start()
    for _ in range(steps):
        inbox.put(runner.step())
    inbox.put(None)
    t.join()
    print(sink[0][:8], runner.lengths[:4])


if __name__ == "__main__":
    main()
