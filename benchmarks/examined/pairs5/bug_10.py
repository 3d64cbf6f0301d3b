"""Checkpointed MLP that keeps hidden activations in host memory between forward and backward."""
import torch
from torch import nn


class HostStash:
    def __init__(self, device="cuda"):
        self.device = device
        self.save_stream = torch.cuda.Stream(device)
        self.load_stream = torch.cuda.Stream(device)

    def save(self, tensor):
        self.save_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.save_stream):
            host = torch.empty_like(tensor, device="cpu", pin_memory=True)
            host.copy_(tensor, non_blocking=True)
            saved = self.save_stream.record_event()
        return host, saved

    def load(self, host, saved):
        self.load_stream.wait_event(saved)
        with torch.cuda.stream(self.load_stream):
            tensor = host.to(self.device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.load_stream)
        tensor.record_stream(torch.cuda.current_stream())
        return tensor


class StashedSwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, value, stash):
        ctx.stash = stash
        ctx.gate = stash.save(gate)
        ctx.value = stash.save(value)
        return torch.nn.functional.silu(gate) * value

    @staticmethod
    def backward(ctx, grad):
        gate = ctx.stash.load(*ctx.gate)
        value = ctx.stash.load(*ctx.value)
        sig = torch.sigmoid(gate)
        silu = gate * sig
        d_gate = grad * value * (sig + silu * (1 - sig))
        return d_gate, grad * silu, None


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden, stash):
        super().__init__()
        self.w_gate = nn.Linear(dim, hidden, bias=False)
        self.w_value = nn.Linear(dim, hidden, bias=False)
        self.w_out = nn.Linear(hidden, dim, bias=False)
        self.stash = stash

    def forward(self, x):
        h = StashedSwiGLU.apply(self.w_gate(x), self.w_value(x), self.stash)
        return x + self.w_out(h)


def train(steps=50):
    stash = HostStash()
    net = nn.Sequential(*[GatedMLP(1024, 4096, stash) for _ in range(8)]).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(steps):
        out = net(torch.randn(512, 1024, device="cuda"))
        loss = (out - 1).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
