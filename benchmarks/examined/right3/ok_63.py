"""Graphs that contain their own host transfers, two of them in rotation."""
import numpy as np
import torch
from torch import nn


class HostGraph:
    def __init__(self, model: nn.Module, batch: int, dim: int, classes: int):
        self.model = model
        self.host_in = torch.zeros(batch, dim, pin_memory=True)
        self.host_out = torch.zeros(batch, classes, pin_memory=True)
        self.x = torch.zeros(batch, dim, device="cuda")
        self.finished = torch.cuda.Event()
        self.ticket: int | None = None
        self.graph = self._capture()

    def _body(self) -> None:
        self.x.copy_(self.host_in, non_blocking=True)
        probs = self.model(self.x).softmax(dim=-1)
        self.host_out.copy_(probs, non_blocking=True)

    def _capture(self) -> torch.cuda.CUDAGraph:
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._body()
        torch.cuda.current_stream().wait_stream(warm)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._body()
        return graph

    def submit(self, ticket: int, rows: np.ndarray) -> None:
        self.host_in.numpy()[...] = rows
        self.ticket = ticket
        self.graph.replay()
        self.finished.record()

    def collect(self) -> tuple[int, np.ndarray]:
        self.finished.synchronize()
        ticket, self.ticket = self.ticket, None
        return ticket, self.host_out.numpy().copy()


class RotatingClassifier:
    def __init__(self, model: nn.Module, batch: int, dim: int, classes: int):
        self.graphs = [HostGraph(model, batch, dim, classes) for _ in range(2)]

    def run(self, batches):
        count = 0
        for rows in batches:
            graph = self.graphs[count % 2]
            if graph.ticket is not None:
                yield graph.collect()
            graph.submit(count, rows)
            count += 1
        for k in range(2):
            graph = self.graphs[(count + k) % 2]
            if graph.ticket is not None:
                yield graph.collect()


@torch.no_grad()
def main():
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 10)).cuda().eval()
    classifier = RotatingClassifier(model, 64, 128, 10)
    rng = np.random.default_rng(0)
    batches = (rng.standard_normal((64, 128), dtype=np.float32) for _ in range(50))
    for ticket, probs in classifier.run(batches):
        print(ticket, probs.argmax(axis=1)[:5])


if __name__ == "__main__":
    main()
