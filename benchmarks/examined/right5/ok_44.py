import torch
from torch import nn


class GraphedTrainer:
    """Whole-step CUDA graph with the next batch uploaded behind the replay."""

    def __init__(self, model: nn.Module, batch: int, features: int, classes: int):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05)
        self.x = torch.zeros(batch, features, device="cuda")
        self.y = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.next_x, self.next_y = torch.zeros_like(self.x), torch.zeros_like(self.y)
        self.loader_stream = torch.cuda.Stream()
        self.taken = torch.cuda.Event()
        self.uploaded = torch.cuda.Event()
        self._capture()
        self.taken.record()

    def _step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def _capture(self):
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def _upload(self, batch):
        self.loader_stream.wait_event(self.taken)
        with torch.cuda.stream(self.loader_stream):
            self.next_x.copy_(batch[0], non_blocking=True)
            self.next_y.copy_(batch[1], non_blocking=True)
            self.uploaded.record()

    def run(self, batches):
        total, count = torch.zeros((), device="cuda"), 0
        it = iter(batches)
        batch = next(it, None)
        if batch is not None:
            self._upload(batch)
        while batch is not None:
            torch.cuda.current_stream().wait_event(self.uploaded)
            self.x.copy_(self.next_x)
            self.y.copy_(self.next_y)
            self.taken.record()
            batch = next(it, None)
            if batch is not None:
                self._upload(batch)
            self.graph.replay()
            total += self.loss
            count += 1
        return (total / max(count, 1)).item()


def pinned(n, batch, features, classes):
    for _ in range(n):
        yield torch.randn(batch, features).pin_memory(), torch.randint(0, classes, (batch,)).pin_memory()


if __name__ == "__main__":
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
    trainer = GraphedTrainer(net, 128, 256, 10)
    for epoch in range(3):
        print(epoch, trainer.run(pinned(100, 128, 256, 10)))
