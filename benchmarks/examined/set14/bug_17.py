from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    tokens: list
    blocks: list
    max_new: int
    done: bool = False
    pending: int = 0


@dataclass
class IndexerMetadata:
    max_batch: int
    max_blocks: int
    batch: int = 0
    lens: torch.Tensor = field(init=False)
    table: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.lens = torch.zeros(self.max_batch, dtype=torch.int32, device="cuda")
        self.table = torch.zeros(self.max_batch, self.max_blocks, dtype=torch.int32, device="cuda")
        self.host_lens = torch.zeros(self.max_batch, dtype=torch.int32, pin_memory=True)
        self.host_table = torch.zeros(self.max_batch, self.max_blocks, dtype=torch.int32, pin_memory=True)

    def prepare(self, requests):
        self.batch = len(requests)
        for row, request in enumerate(requests):
            self.host_lens[row] = len(request.tokens) + request.pending
            self.host_table[row].zero_()
            self.host_table[row, : len(request.blocks)] = torch.tensor(request.blocks, dtype=torch.int32)
        n = self.batch
        self.lens[:n].copy_(self.host_lens[:n], non_blocking=True)
        self.table[:n].copy_(self.host_table[:n], non_blocking=True)


class OverlapExecutor:
    def __init__(self, model, max_batch, max_blocks):
        self.model = model
        self.metadata = IndexerMetadata(max_batch, max_blocks)
        self.last_tokens = torch.zeros(max_batch, dtype=torch.long, device="cuda")

    def _launch(self, requests):
        self.metadata.prepare(requests)
        n = self.metadata.batch
        logits = self.model(self.last_tokens[:n], self.metadata.lens[:n], self.metadata.table[:n])
        sampled = logits.argmax(dim=-1)
        self.last_tokens[:n] = sampled
        host = torch.empty(n, dtype=torch.long, pin_memory=True)
        host.copy_(sampled, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        for request in requests:
            request.pending += 1
        return requests, host, copied

    def _finish(self, flight):
        requests, host, copied = flight
        copied.synchronize()
        for request, token in zip(requests, host.tolist()):
            request.pending -= 1
            request.tokens.append(token)
            request.done = len(request.tokens) >= request.max_new

    @torch.inference_mode()
    def run(self, requests):
        flight = None
        while not all(request.done for request in requests):
            current = self._launch(requests)
            if flight is not None:
                self._finish(flight)
            flight = current
        self._finish(flight)
