"""Two ensemble members are trained side by side, each step replayed from a graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Member:
    def __init__(self, seed, pool, batch=2048, dim=256):
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(dim, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(),
                                 nn.Linear(1024, 10)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.x = torch.zeros(batch, dim, device="cuda")
        self.y = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._step()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.loss = self._step()

    def _step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def launch(self, x, y):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class Ensemble:
    def __init__(self, size=2):
        pool = torch.cuda.graph_pool_handle()
        self.members = [Member(seed, pool) for seed in range(size)]

    def step(self, x, y):
        for member in self.members:
            member.launch(x, y)
        for member in self.members:
            member.join()
        return torch.stack([m.loss for m in self.members])


def main():
    ensemble = Ensemble()
    w = torch.randn(256, 10, device="cuda")
    for step in range(2000):
        x = torch.randn(2048, 256, device="cuda")
        losses = ensemble.step(x, (x @ w).argmax(1))
        if step % 200 == 0:
            print(step, losses.tolist())


if __name__ == "__main__":
    main()
