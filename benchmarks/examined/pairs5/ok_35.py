"""Serving with a graph while new weights arrive: the loader stream and the serving stream wait for each other."""
import torch
from torch import nn


class HotModel:
    def __init__(self, net, shape):
        self.net = net.eval()
        self.params = list(net.parameters())
        self.loader = torch.cuda.Stream()
        self.staging = [torch.empty_like(p) for p in self.params]
        self.staged = torch.cuda.Event()
        self.x = torch.zeros(shape, device="cuda")
        with torch.no_grad():
            self.net(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = self.net(self.x)
        self.has_update = False

    @torch.no_grad()
    def offer(self, state):
        self.loader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.loader):
            for dst, src in zip(self.staging, state):
                dst.copy_(src, non_blocking=True)
            self.staged.record()
        self.has_update = True

    @torch.no_grad()
    def _adopt(self):
        torch.cuda.current_stream().wait_event(self.staged)
        torch._foreach_copy_(self.params, self.staging)
        self.has_update = False

    @torch.no_grad()
    def predict(self, x):
        if self.has_update:
            self._adopt()
        self.x.copy_(x)
        self.graph.replay()
        return self.y.argmax(-1)


def main():
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 100)).cuda()
    model = HotModel(net, (1024, 512))
    checkpoints = [[torch.randn(p.shape).mul_(0.02).pin_memory() for p in model.params] for _ in range(3)]
    votes = torch.zeros(100, device="cuda")
    for step in range(300):
        if step % 50 == 0:
            model.offer(checkpoints[(step // 50) % 3])
        labels = model.predict(torch.randn(1024, 512, device="cuda"))
        votes += torch.bincount(labels, minlength=100)
    torch.cuda.synchronize()
    print(votes.topk(3).indices.tolist())


if __name__ == "__main__":
    main()
