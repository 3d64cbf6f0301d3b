"""MoE block whose dispatch/experts/combine chain overlaps with the shared expert."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class AllToAllDispatcher:
    def __init__(self, group):
        self.group = group

    def dispatch(self, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x, group=self.group)
        return out

    def combine(self, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x, group=self.group)
        return out


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class OverlappedMoE(nn.Module):
    def __init__(self, dim, hidden, group, overlap=True):
        super().__init__()
        self.routed = Expert(dim, hidden)
        self.shared = Expert(dim, hidden)
        self.gate = nn.Linear(dim, 1, bias=False)
        self.dispatcher = AllToAllDispatcher(group)
        self.overlap = overlap
        self._stream = None

    def _side_stream(self, device):
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)
        return self._stream

    def _routed_path(self, x, scores):
        tokens = self.dispatcher.dispatch(x * scores)
        return self.dispatcher.combine(self.routed(tokens))

    def forward(self, x):
        scores = torch.sigmoid(self.gate(x))
        if not (self.overlap and x.is_cuda):
            return self._routed_path(x, scores) + self.shared(x)
        side = self._side_stream(x.device)
        main = torch.cuda.current_stream(x.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            routed = self._routed_path(x, scores)
        x.record_stream(side)
        scores.record_stream(side)
        shared = self.shared(x)
        main.wait_stream(side)
        routed.record_stream(main)
        return shared + routed


class Decoder(nn.Module):
    def __init__(self, dim, hidden, depth, group):
        super().__init__()
        self.blocks = nn.ModuleList([OverlappedMoE(dim, hidden, group) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])

    def forward(self, x):
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


@torch.no_grad()
def evaluate(rank, batches):
    torch.cuda.set_device(rank)
    model = Decoder(1024, 4096, 8, dist.group.WORLD).cuda().eval()
    total = torch.zeros((), device="cuda")
    for batch in batches:
        total += model(batch.cuda()).square().mean()
    return total.item()
