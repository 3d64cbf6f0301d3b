"""Scores batches and ships the top candidates to the host, one ticket a batch."""
import numpy as np
import torch


class Ticket:
    def __init__(self):
        self.event = torch.cuda.Event()
        self.pairs = []

    def add(self, device_tensor):
        host = torch.empty(device_tensor.shape, dtype=device_tensor.dtype, pin_memory=True)
        self.pairs.append((device_tensor, host))

    def result(self):
        self.event.synchronize()
        out = [host.numpy() for _, host in self.pairs]
        self.pairs = []
        return out


class HostExporter:
    def __init__(self, device="cuda"):
        self.transfer = torch.cuda.Stream(device)

    def submit(self, *tensors):
        ticket = Ticket()
        for t in tensors:
            ticket.add(t)
        caller = torch.cuda.current_stream()
        self.transfer.wait_stream(caller)
        with torch.cuda.stream(self.transfer):
            for src, dst in ticket.pairs:
                dst.copy_(src, non_blocking=True)
        caller.wait_stream(self.transfer)
        ticket.event.record()
        return ticket


class Retriever:
    def __init__(self, items=200_000, dim=256, k=4096):
        self.table = torch.randn(items, dim, device="cuda")
        self.k = k
        self.exporter = HostExporter()

    @torch.no_grad()
    def search(self, queries):
        scores, indices = (queries @ self.table.t()).topk(self.k, dim=1)
        return self.exporter.submit(scores, indices)


def rerank(scores, indices, keep=10):
    noise = np.sin(indices.astype(np.float32))
    order = np.argsort(-(scores + 0.01 * noise), axis=1)[:, :keep]
    return np.take_along_axis(indices, order, axis=1)


def main():
    retriever = Retriever()
    tickets, final = [], []
    for _ in range(6):
        tickets.append(retriever.search(torch.randn(128, 256, device="cuda")))
        if len(tickets) > 1:
            final.append(rerank(*tickets.pop(0).result()))
    final.extend(rerank(*t.result()) for t in tickets)
    print(np.concatenate(final).shape)


if __name__ == "__main__":
    main()
