import torch
from torch import nn


class GatedDelta(nn.Module):
    """Computes its gate on an auxiliary stream."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.aux = torch.cuda.Stream()
        self.fork, self.join = torch.cuda.Event(), torch.cuda.Event()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.fork.record(main)
        with torch.cuda.stream(self.aux):
            self.aux.wait_event(self.fork)
            gate = torch.sigmoid(self.gate(x))
            self.join.record(self.aux)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mixed = torch.softmax(q * k, dim=-1) * v
        main.wait_event(self.join)
        gate.record_stream(main)
        return self.out(mixed * gate)


class GraphRunner:
    def __init__(self, model, rows, width, warmups=2):
        self.model = model.cuda().eval()
        self.static_in = torch.zeros(rows, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.warmups = warmups
        self.static_out = None

    @torch.no_grad()
    def capture(self):
        for _ in range(self.warmups):
            self.model(self.static_in)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.static_out = self.model(self.static_in)

    @torch.no_grad()
    def __call__(self, x):
        n = x.shape[0]
        self.static_in[:n].copy_(x, non_blocking=True)
        self.graph.replay()
        return self.static_out[:n].clone()


def run(batches, width=1024, depth=4, rows=64):
    model = nn.Sequential(*(GatedDelta(width) for _ in range(depth)))
    runner = GraphRunner(model, rows, width)
    runner.capture()
    return [runner(batch.cuda()).cpu() for batch in batches]
