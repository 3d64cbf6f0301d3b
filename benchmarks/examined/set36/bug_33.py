"""Autoregressive runner whose hidden states are handed to a downstream stage in the background."""
import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class StepOutput:
    request_ids: list
    hidden: torch.Tensor
    tokens: torch.Tensor
    ready: torch.cuda.Event


class Connector:
    """Receives finished payloads, e.g. for an audio stage."""

    def __init__(self):
        self.received = {}

    def send(self, request_id, hidden, token):
        self.received.setdefault(request_id, []).append((float(hidden.mean()), token))


class PayloadBuilder(threading.Thread):
    def __init__(self, connector: Connector):
        super().__init__(daemon=True)
        self.connector = connector
        self.jobs: "queue.Queue[StepOutput | None]" = queue.Queue()

    def submit(self, out: StepOutput):
        self.jobs.put(out)

    def run(self):
        while True:
            out = self.jobs.get()
            if out is None:
                return
            out.ready.synchronize()
            tokens = out.tokens.tolist()
            for row, rid in enumerate(out.request_ids):
                self.connector.send(rid, out.hidden[row], tokens[row])


class ModelRunner:
    def __init__(self, model: nn.Module, head: nn.Module, max_batch, dim, builder: PayloadBuilder):
        self.model = model.cuda().eval()
        self.head = head.cuda().eval()
        self.inputs = torch.zeros(max_batch, dim, device="cuda")
        self.hidden = torch.zeros(max_batch, dim, device="cuda")
        self.copy_stream = torch.cuda.Stream()
        self.builder = builder
        self.graph = None

    @torch.no_grad()
    def capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.hidden.copy_(self.model(self.inputs))
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.hidden.copy_(self.model(self.inputs))

    def _snapshot(self, tensors):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        copies = []
        with torch.cuda.stream(self.copy_stream):
            for t in tensors:
                t.record_stream(self.copy_stream)
                host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
                host.copy_(t, non_blocking=True)
                copies.append(host)
            ready = torch.cuda.Event()
            ready.record(self.copy_stream)
        return copies, ready

    @torch.no_grad()
    def step(self, request_ids, embeddings):
        n = embeddings.shape[0]
        self.inputs[:n].copy_(embeddings, non_blocking=True)
        self.graph.replay()
        tokens = self.head(self.hidden[:n]).argmax(dim=-1)
        (hidden, host_tokens), ready = self._snapshot([self.hidden[:n], tokens])
        self.builder.submit(StepOutput(list(request_ids), hidden, host_tokens, ready))
        return tokens


def main():
    dim, vocab, batch = 2048, 16384, 64
    connector = Connector()
    builder = PayloadBuilder(connector)
    builder.start()
    model = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
    runner = ModelRunner(model, nn.Linear(dim, vocab), batch, dim, builder)
    runner.capture()
    table = torch.randn(vocab, dim, device="cuda")
    tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
    for _ in range(200):
        tokens = runner.step(range(batch), table[tokens])
    builder.submit(None)
    builder.join()
    print(len(connector.received))


if __name__ == "__main__":
    main()
