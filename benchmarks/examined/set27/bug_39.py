"""Piecewise CUDA graphs: dense pieces are captured, the MoE calls between them stay eager."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedMoE(nn.Module):
    """Top-1 routing; the token counts per expert are only known at run time."""

    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(experts))

    def forward(self, x):
        weight, choice = F.softmax(self.gate(x), dim=-1).max(dim=-1)
        out = torch.empty_like(x)
        for e, expert in enumerate(self.experts):
            rows = (choice == e).nonzero(as_tuple=True)[0]
            if rows.numel():
                out[rows] = expert(x[rows]) * weight[rows, None]
        return out


class DensePiece(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, x):
        return x + F.silu(self.mix(self.norm(x)))


class CUDAGraphWrapper:
    """Captures the wrapped piece on its first call and replays it from then on."""

    def __init__(self, piece, pool):
        self.piece = piece
        self.pool = pool
        self.graph = None
        self.output = None

    def _capture(self, x):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.piece(x)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=self.pool):
            self.output = self.piece(x)

    def __call__(self, x):
        if self.graph is None:
            self._capture(x)
        self.graph.replay()
        return self.output


class PiecewiseModel(nn.Module):
    def __init__(self, vocab, dim, layers, experts, max_tokens):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.dense = nn.ModuleList(DensePiece(dim) for _ in range(layers))
        self.moe = nn.ModuleList(SharedMoE(dim, experts) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)
        self.max_tokens = max_tokens


class ModelRunner:
    def __init__(self, model):
        self.model = model
        pool = torch.cuda.graph_pool_handle()
        self.input_ids = torch.zeros(model.max_tokens, dtype=torch.long, device="cuda")
        first, *rest = model.dense
        self.entry = CUDAGraphWrapper(nn.Sequential(model.embed, first), pool)
        self.pieces = [CUDAGraphWrapper(piece, pool) for piece in rest]

    @torch.inference_mode()
    def execute(self, token_ids):
        self.input_ids.copy_(token_ids)
        hidden = self.entry(self.input_ids)
        for piece, moe in zip(self.pieces, self.model.moe):
            hidden = piece(moe(hidden))
        hidden = self.model.moe[-1](hidden)
        return self.model.head(hidden)


@torch.inference_mode()
def eager(model, token_ids):
    hidden = model.embed(token_ids)
    for dense, moe in zip(model.dense, model.moe):
        hidden = moe(dense(hidden))
    return model.head(hidden)


def main():
    torch.manual_seed(0)
    model = PiecewiseModel(vocab=32000, dim=1024, layers=8, experts=16, max_tokens=256).cuda().half().eval()
    runner = ModelRunner(model)
    tokens = torch.randint(0, 32000, (256,), device="cuda")
    for _ in range(64):
        logits = runner.execute(tokens)
        tokens = logits.argmax(dim=-1)
    reference = eager(model, tokens)
    print((runner.execute(tokens) - reference).abs().max().item())


if __name__ == "__main__":
    main()
