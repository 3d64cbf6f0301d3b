import torch
from torch import nn


class ExpertBank(nn.Module):
    """Experts run side by side; results are placed by expert number."""

    def __init__(self, dim, hidden, experts, lanes=3):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
            for _ in range(experts)
        )
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]

    def dispatch(self, x, pick):
        n = len(self.experts)
        outs = [None] * n
        ends = [None] * n
        fork = torch.cuda.Event()
        rows = [torch.nonzero(pick == e).flatten() for e in range(n)]
        fork.record()
        for e in reversed(range(n)):
            if rows[e].numel() == 0:
                continue
            lane = self.lanes[e % len(self.lanes)]
            lane.wait_event(fork)
            with torch.cuda.stream(lane):
                outs[e] = self.experts[e](x[rows[e]])
                ends[e] = lane.record_event()
        return rows, outs, ends

    @torch.no_grad()
    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        top, pick = prob.max(-1)
        here = torch.cuda.current_stream()
        rows, outs, ends = self.dispatch(x, pick)
        result = torch.zeros_like(x)
        for e, y in enumerate(outs):
            if y is None:
                continue
            here.wait_event(ends[e])
            y.record_stream(here)
            result.index_add_(0, rows[e], y)
        return result * top[:, None]


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.bank = ExpertBank(dim, 4 * dim, experts=8)

    def forward(self, x):
        return x + self.bank(self.norm(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(*(Block(256) for _ in range(4))).cuda()
    with torch.no_grad():
        for _ in range(10):
            y = net(torch.randn(1024, 256, device="cuda"))
    print(y.std().item())
