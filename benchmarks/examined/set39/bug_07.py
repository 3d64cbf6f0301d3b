"""Scores batches and ships the top candidates to a host-side re-ranker."""
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Ticket:
    scores: torch.Tensor
    indices: torch.Tensor
    event: torch.cuda.Event

    def result(self):
        self.event.synchronize()
        return self.scores.numpy(), self.indices.numpy()


class HostExporter:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.transfer = torch.cuda.Stream(self.device)

    def _to_host(self, t):
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        host.copy_(t, non_blocking=True)
        t.record_stream(self.transfer)
        return host

    def submit(self, scores, indices):
        self.transfer.wait_stream(torch.cuda.current_stream(self.device))
        event = torch.cuda.Event()
        with torch.cuda.stream(self.transfer):
            host_scores = self._to_host(scores)
            host_indices = self._to_host(indices)
        event.record()
        return Ticket(host_scores, host_indices, event)


class Retriever:
    def __init__(self, items=200_000, dim=256, k=4096):
        self.table = torch.randn(items, dim, device="cuda")
        self.k = k
        self.exporter = HostExporter()

    @torch.no_grad()
    def search(self, queries):
        sims = queries @ self.table.t()
        scores, indices = sims.topk(self.k, dim=1)
        return self.exporter.submit(scores, indices)


def rerank(scores, indices, keep=10):
    noise = np.sin(indices.astype(np.float32))
    order = np.argsort(-(scores + 0.01 * noise), axis=1)[:, :keep]
    return np.take_along_axis(indices, order, axis=1)


def main():
    retriever = Retriever()
    previous = None
    final = []
    for _ in range(6):
        queries = torch.randn(128, 256, device="cuda")
        ticket = retriever.search(queries)
        if previous is not None:
            final.append(rerank(*previous.result()))
        previous = ticket
    final.append(rerank(*previous.result()))
    print(np.concatenate(final).shape)


if __name__ == "__main__":
    main()
