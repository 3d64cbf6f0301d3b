"""Historical embedding training: pulls ahead of time, pushes after each layer."""
import torch
from torch import nn


class History(nn.Module):
    """Device-resident node states with asynchronous pulls."""

    def __init__(self, num_nodes, dim):
        super().__init__()
        self.register_buffer("state", torch.zeros(num_nodes, dim))
        self.pushed = None
        self.pull_stream = None

    def open(self):
        self.pull_stream = torch.cuda.Stream()
        self.pull_stream.wait_stream(torch.cuda.current_stream())
        self.pushed = torch.cuda.Event()

    def pull(self, index):
        self.pull_stream.wait_event(self.pushed)
        with torch.cuda.stream(self.pull_stream):
            device_index = index.pin_memory().to(self.state.device, non_blocking=True)
            values = self.state[device_index]
            ready = self.pull_stream.record_event()
        return device_index, values, ready

    def push(self, index, values):
        self.state[index] = values
        self.pushed.record()


class Trainer:
    def __init__(self, num_nodes=500_000, dim=256):
        self.num_nodes = num_nodes
        self.history = History(num_nodes, dim).cuda()
        self.history.open()
        self.layer = nn.GRUCell(dim, dim).cuda()
        self.opt = torch.optim.Adam(self.layer.parameters(), 1e-3)

    def clusters(self, count, size):
        for _ in range(count):
            yield torch.randint(0, self.num_nodes, (size,))

    def epoch(self, count=200, size=20_000):
        stream = torch.cuda.current_stream()
        clusters = self.clusters(count, size)
        pending = self.history.pull(next(clusters))
        for nodes in clusters:
            upcoming = self.history.pull(nodes)
            index, values, ready = pending
            stream.wait_event(ready)
            index.record_stream(stream)
            values.record_stream(stream)
            hidden = self.layer(torch.randn_like(values), values)
            loss = hidden.pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.history.push(index, hidden.detach())
            pending = upcoming
        torch.cuda.synchronize()


if __name__ == "__main__":
    Trainer().epoch()
