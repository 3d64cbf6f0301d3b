import torch
import torch.nn.functional as F
from torch import nn


class Fork:
    """Runs a block on an auxiliary stream; ``join`` brings its results back."""

    def __init__(self, stream):
        self.stream = stream
        self.done = torch.cuda.Event()
        self._ctx = None

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self.done.record()
        return self._ctx.__exit__(*exc)

    def join(self, *tensors):
        current = torch.cuda.current_stream()
        current.wait_event(self.done)
        for t in tensors:
            t.record_stream(current)
        return tensors if len(tensors) > 1 else tensors[0]


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, hidden * 2, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class SharedExpertMoE(nn.Module):
    def __init__(self, dim, hidden, experts, top_k, aux_stream):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.shared = Expert(dim, hidden)
        self.top_k = top_k
        self.aux_stream = aux_stream

    def routed(self, x):
        weights, picks = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            w = (weights * (picks == e)).sum(-1, keepdim=True)
            out += w * expert(x)
        return out

    def forward(self, x):
        fork = Fork(self.aux_stream)
        with fork:
            shared = self.shared(x)
        routed = self.routed(x)
        return routed + fork.join(shared)


class Decoder(nn.Module):
    def __init__(self, depth, dim):
        super().__init__()
        aux = torch.cuda.Stream()
        self.blocks = nn.ModuleList(SharedExpertMoE(dim, dim * 2, 8, 2, aux) for _ in range(depth))

    @torch.no_grad()
    def forward(self, x):
        for block in self.blocks:
            x = x + block(F.layer_norm(x, x.shape[-1:]))
        return x


def main():
    model = Decoder(8, 1024).cuda()
    for i in range(10):
        tokens = torch.randn(64, 1024, device="cuda")
        print(i, model(tokens).std().item())


if __name__ == "__main__":
    main()
