"""Auxiliary objectives on side streams; completion is tracked with pooled events."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EventPool:
    def __init__(self):
        self._free = []

    def get(self):
        return self._free.pop() if self._free else torch.cuda.Event()

    def put(self, event):
        self._free.append(event)


class AuxiliaryTargets:
    """Computes frozen targets (edges, colour statistics) for a batch, each on a stream of its own."""

    def __init__(self, channels=3):
        self.pool = EventPool()
        kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device="cuda")
        self.sobel = kernel.expand(channels, 1, 3, 3).contiguous()
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        for s in self.streams:
            s.wait_stream(torch.cuda.current_stream())

    def edges(self, x):
        return F.conv2d(x, self.sobel, padding=1, groups=x.size(1)).abs()

    def colour(self, x):
        blurred = F.avg_pool2d(x, 31, stride=1, padding=15)
        return (x - blurred).square().mean((2, 3))

    @torch.no_grad()
    def launch(self, x):
        results, events = [], []
        begin = torch.cuda.current_stream().record_event()
        for stream, fn in zip(self.streams, (self.edges, self.colour)):
            stream.wait_event(begin)
            done = self.pool.get()
            with torch.cuda.stream(stream):
                results.append(fn(x))
                done.record(stream)
            x.record_stream(stream)
            events.append(done)
            self.pool.put(done)
        return results, events

    def collect(self, results, events):
        current = torch.cuda.current_stream()
        for tensor, event in zip(results, events):
            current.wait_event(event)
            tensor.record_stream(current)
        return results


class PretextNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 128, 3, padding=1), nn.GELU(), nn.Conv2d(128, 64, 3, padding=1))
        self.edge, self.colour = nn.Conv2d(64, 3, 1), nn.Linear(64, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.edge(h), self.colour(h.mean((2, 3)))


def main(steps=1000):
    model, targets = PretextNet().cuda(), AuxiliaryTargets()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.rand(16, 3, 224, 224, device="cuda")
        pending = targets.launch(x)
        edge, colour = model(x)
        edge_target, colour_target = targets.collect(*pending)
        loss = F.l1_loss(edge, edge_target) + F.mse_loss(colour, colour_target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
