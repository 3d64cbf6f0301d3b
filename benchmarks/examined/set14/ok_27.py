import torch
import torch.nn.functional as F
from torch import nn


class OverlappedBlock(nn.Module):
    """Runs side_branch on an auxiliary stream while main_branch runs here."""

    _aux = {}

    @classmethod
    def aux_stream(cls, device):
        if device not in cls._aux:
            cls._aux[device] = torch.cuda.Stream(device)
        return cls._aux[device]

    def main_branch(self, x):
        raise NotImplementedError

    def side_branch(self, x):
        raise NotImplementedError

    def combine(self, main, side):
        return main + side

    @torch.no_grad()
    def forward(self, x):
        current = torch.cuda.current_stream(x.device)
        aux = self.aux_stream(x.device)
        aux.wait_stream(current)
        with torch.cuda.stream(aux):
            side = self.side_branch(x)
        main = self.main_branch(x)
        current.wait_stream(aux)
        side.record_stream(current)
        return self.combine(main, side)


class MoEBlock(OverlappedBlock):
    def __init__(self, hidden, inter, experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(hidden, experts, bias=False)
        self.w1 = nn.Parameter(torch.empty(experts, inter, hidden))
        self.w2 = nn.Parameter(torch.empty(experts, hidden, inter))
        self.shared = nn.Sequential(nn.Linear(hidden, inter), nn.SiLU(), nn.Linear(inter, hidden))

    def main_branch(self, x):
        weights, ids = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for slot in range(self.top_k):
            h = F.silu(torch.einsum("th,tih->ti", x, self.w1[ids[:, slot]]))
            out.addcmul_(torch.einsum("ti,thi->th", h, self.w2[ids[:, slot]]), weights[:, slot, None])
        return out

    def side_branch(self, x):
        return self.shared(x)


class ConvGateBlock(OverlappedBlock):
    def __init__(self, hidden, kernel=4):
        super().__init__()
        self.conv = nn.Conv1d(hidden, hidden, kernel, groups=hidden, padding=kernel - 1)
        self.gate = nn.Linear(hidden, hidden)

    def main_branch(self, x):
        return self.conv(x.t().unsqueeze(0))[0, :, : x.shape[0]].t()

    def side_branch(self, x):
        return torch.sigmoid(self.gate(x))

    def combine(self, main, side):
        return main * side
