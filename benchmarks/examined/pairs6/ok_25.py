"""Captured SGD step whose learning rate comes from a pinned scalar."""
import math

import torch
import torch.nn as nn


class ScheduledStep:
    def __init__(self, model, x, y):
        self.params = list(model.parameters())
        self.model, self.x, self.y = model, x, y
        self.lr_host = torch.zeros(1, pin_memory=True)
        self.lr = torch.zeros(1, device="cuda")
        self.finished = torch.cuda.Event()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._body()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._body()

    def _body(self):
        self.lr.copy_(self.lr_host, non_blocking=True)
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            for p, g in zip(self.params, grads):
                p.sub_(self.lr * g)

    def run(self, x, y, lr):
        self.finished.synchronize()
        self.lr_host[0] = lr
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        self.finished.record()


def cosine(step, total, peak):
    return 0.5 * peak * (1 + math.cos(math.pi * step / total))


def main(total=5000):
    model = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 1)).cuda()
    x = torch.randn(4096, 32, device="cuda")
    step = ScheduledStep(model, x.clone(), x.sum(1, keepdim=True))
    for i in range(total):
        x = torch.randn(4096, 32, device="cuda")
        step.run(x, x.sum(1, keepdim=True), cosine(i, total, 0.05))
    torch.cuda.synchronize()
    torch.save(model.state_dict(), "sum.pt")


if __name__ == "__main__":
    main()
