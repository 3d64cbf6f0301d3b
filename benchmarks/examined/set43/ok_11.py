from concurrent.futures import Future, ThreadPoolExecutor
from typing import List, Optional

import torch
import torch.nn as nn


class Experts(nn.Module):
    def __init__(self, n: int, width: int):
        super().__init__()
        self.up = nn.Parameter(torch.randn(n, width, width) * 0.02, requires_grad=False)
        self.register_buffer("load", torch.zeros(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = x[:, : self.up.shape[0]]
        pick = score.argmax(-1)
        self.load.add_(torch.nn.functional.one_hot(pick, self.up.shape[0]).sum(0))
        weight = self.up.mean(0) + self.up[0]
        return x + torch.tanh(x @ weight)


class RebalanceTask:
    def __init__(self, layer: Experts, device: torch.device):
        self.layer = layer
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.image = torch.empty_like(layer.up)

    def __call__(self, start: torch.cuda.Event) -> torch.Tensor:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            start.wait()
            order = torch.argsort(self.layer.load, descending=True)
            torch.index_select(self.layer.up, 0, order, out=self.image)
            order = order.clone()
        self.stream.synchronize()
        return order


class Balancer:
    def __init__(self, layers: List[Experts], device: torch.device):
        self.tasks = [RebalanceTask(l, device) for l in layers]
        self.executor = ThreadPoolExecutor(1)
        self.cursor = 0
        self.pending: Optional[Future] = None

    def maybe_start(self):
        if self.pending is None:
            start = torch.cuda.Event()
            start.record()
            self.pending = self.executor.submit(self.tasks[self.cursor], start)

    def finish(self):
        if self.pending is None:
            return
        self.pending.result()
        task = self.tasks[self.cursor]
        task.layer.up.copy_(task.image)
        task.layer.load.zero_()
        self.cursor = (self.cursor + 1) % len(self.tasks)
        self.pending = None

    def close(self):
        self.executor.shutdown(wait=True)


class Engine:
    def __init__(self, depth: int, experts: int, width: int):
        self.device = torch.device("cuda", 0)
        self.layers = [Experts(experts, width).to(self.device) for _ in range(depth)]
        self.balancer = Balancer(self.layers, self.device)

    @torch.inference_mode()
    def run(self, steps: int, interval: int = 4) -> float:
        x = torch.randn(512, self.layers[0].up.shape[-1], device=self.device)
        for step in range(steps):
            for layer in self.layers:
                x = layer(x)
            if step % interval == interval - 1:
                self.balancer.maybe_start()
                self.balancer.finish()
        self.balancer.close()
        return x.norm().item()


if __name__ == "__main__":
    torch.cuda.set_device(0)
    print(Engine(depth=4, experts=32, width=1024).run(40))
