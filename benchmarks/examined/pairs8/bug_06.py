import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseMLP(nn.Module):
    def __init__(self, dim, inter):
        super().__init__()
        self.up = nn.Linear(dim, inter, bias=False)
        self.down = nn.Linear(inter, dim, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoEBlock(nn.Module):
    def __init__(self, dim, inter, experts, alt_stream):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(DenseMLP(dim, inter) for _ in range(experts))
        self.shared_experts = DenseMLP(dim, inter)
        self.alt_stream = alt_stream

    def forward(self, tokens):
        with torch.cuda.stream(self.alt_stream):
            self.alt_stream.wait_stream(torch.cuda.current_stream())
            shared_out = self.shared_experts(tokens)
        scores = self.gate(tokens).softmax(-1)
        routed = sum(scores[:, i, None] * e(tokens) for i, e in enumerate(self.experts))
        torch.cuda.current_stream().wait_stream(self.alt_stream)
        shared_out.record_stream(torch.cuda.current_stream())
        return routed + shared_out


class Decoder(nn.Module):
    def __init__(self, depth=6, dim=512):
        super().__init__()
        alt = torch.cuda.Stream()
        self.attn = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.moe = nn.ModuleList(MoEBlock(dim, 1024, 4, alt) for _ in range(depth))

    def forward(self, x):
        for attn, moe in zip(self.attn, self.moe):
            x = x + attn(F.layer_norm(x, x.shape[-1:]))
            x = x + moe(x)
        return x


@torch.inference_mode()
def main():
    net = Decoder().cuda()
    torch.cuda.synchronize()
    for _ in range(10):
        out = net(torch.randn(64, 512, device="cuda"))
    print(out.mean().item())


if __name__ == "__main__":
    main()
