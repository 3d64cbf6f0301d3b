"""Graph replays that export their metrics to pinned memory as part of the graph."""
import torch
import torch.nn as nn


class MetricGraph:
    def __init__(self, model, optimizer, batch, dim):
        self.model, self.optimizer = model, optimizer
        self.x = torch.randn(batch, dim, device="cuda")
        self.metrics = torch.zeros(3, pin_memory=True)
        self.done = torch.cuda.Event()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        side.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(self.x)
        loss = (out - self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        stats = torch.stack([loss.detach(), out.detach().mean(), out.detach().std()])
        self.metrics.copy_(stats, non_blocking=True)

    def launch(self, x):
        self.x.copy_(x)
        self.graph.replay()
        self.done.record()

    def read(self):
        self.done.synchronize()
        return dict(zip(("loss", "mean", "std"), self.metrics.tolist()))


class ConsoleLogger:
    def __init__(self, every):
        self.every = every

    def __call__(self, step, graph):
        if step % self.every == 0:
            values = graph.read()
            print(step, " ".join(f"{k}={v:.4f}" for k, v in values.items()))


def main():
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    graph = MetricGraph(model, optimizer, 1024, 256)
    logger = ConsoleLogger(100)
    for step in range(3000):
        graph.launch(torch.randn(1024, 256, device="cuda"))
        logger(step, graph)


if __name__ == "__main__":
    main()
