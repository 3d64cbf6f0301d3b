"""Captured training step with a parameterless accumulator."""
import torch
from torch import nn


class GraphedStep:
    def __init__(self, model: nn.Module, opt, shape):
        self.model, self.opt = model, opt
        self.x = torch.zeros(shape, device="cuda")
        self.y = torch.zeros(shape[0], dtype=torch.long, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self._warmup(3)
        opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._body()

    def _body(self):
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss

    def _warmup(self, n):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(n):
                self.opt.zero_grad(set_to_none=True)
                self._body()
        torch.cuda.current_stream().wait_stream(side)

    def __call__(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.detach().clone()


def main(steps=30):
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    step = GraphedStep(model, opt, (64, 128))
    losses = []
    for _ in range(steps):
        x = torch.randn(64, 128, pin_memory=True)
        y = torch.randint(10, (64,)).pin_memory()
        losses.append(step(x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)))
    print(torch.stack(losses).tolist()[-1])


if __name__ == "__main__":
    main()
