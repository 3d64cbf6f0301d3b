import torch
import torch.nn as nn


class SharedExpert(nn.Module):
    def __init__(self, dim, inter):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * inter, bias=False)
        self.down = nn.Linear(inter, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(torch.nn.functional.silu(gate) * up)


class SparseMoE(nn.Module):
    _aux = None

    def __init__(self, dim=1024, inter=2048, experts=8, top_k=2):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w = nn.Parameter(torch.randn(experts, dim, dim) * 0.02)
        self.shared = SharedExpert(dim, inter)
        self.top_k = top_k

    @classmethod
    def aux_stream(cls):
        if SparseMoE._aux is None:
            SparseMoE._aux = torch.cuda.Stream()
        return SparseMoE._aux

    def routed(self, x):
        weights, picks = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for k in range(self.top_k):
            out += weights[:, k, None] * torch.einsum("td,tde->te", x, self.w[picks[:, k]])
        return out

    def forward(self, hidden):
        main = torch.cuda.current_stream()
        aux = self.aux_stream()
        aux.wait_stream(main)
        with torch.cuda.stream(aux):
            shared = self.shared(hidden)
        routed = self.routed(hidden)
        main.wait_stream(aux)
        return routed + shared


@torch.inference_mode()
def main():
    layers = nn.ModuleList(SparseMoE(dim=256, inter=512) for _ in range(4)).cuda()
    x = torch.randn(128, 256, device="cuda")
    for _ in range(8):
        for layer in layers:
            x = torch.nn.functional.layer_norm(x + layer(x), (256,))
    print(x.norm().item())


if __name__ == "__main__":
    main()
