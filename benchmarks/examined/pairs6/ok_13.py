"""Whole step capture: forward, backward and update run as one graph."""
import torch
import torch.nn as nn


class GraphedTrainer:
    def __init__(self, model, optimizer, criterion, x, y, warmup=3):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.x = torch.empty_like(x)
        self.y = torch.empty_like(y)
        self.x.copy_(x)
        self.y.copy_(y)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def __call__(self, x, y):
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.graph.replay()
        return self.loss.clone()


def batches(n, size, dim):
    g = torch.Generator().manual_seed(0)
    for _ in range(n):
        x = torch.randn(size, dim, generator=g).pin_memory()
        yield x, (x[:, :1] * 3).pin_memory()


def main():
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    stream = batches(2000, 512, 64)
    x, y = next(stream)
    trainer = GraphedTrainer(model, optimizer, nn.MSELoss(), x.cuda(), y.cuda())
    losses = [trainer(x, y) for x, y in stream]
    curve = torch.stack(losses).cpu()
    print("first", float(curve[0]), "last", float(curve[-1]))


if __name__ == "__main__":
    main()
