"""Stochastic rounding of bf16 weights with a CuPy kernel after each optimizer step."""
import cupy as cp
import torch
import torch.nn as nn

round_kernel = cp.ElementwiseKernel(
    "float32 master, uint32 noise", "uint16 out",
    "unsigned int bits = __float_as_uint(master) + (noise & 0xffffu); out = (unsigned short)(bits >> 16);",
    "stochastic_round")


class RoundedWeights:
    def __init__(self, params):
        self.params = list(params)
        self.master = [p.detach().float() for p in self.params]
        self.noise = [torch.zeros(p.numel(), dtype=torch.int32, device="cuda") for p in self.params]
        self.stream = cp.cuda.Stream()

    @torch.no_grad()
    def apply(self, lr):
        for p, m, n in zip(self.params, self.master, self.noise):
            m.sub_(p.grad.float(), alpha=lr)
            n.random_(0, 1 << 16)
        with self.stream:
            for p, m, n in zip(self.params, self.master, self.noise):
                out = cp.asarray(p.detach().view(torch.int16)).view(cp.uint16)
                round_kernel(cp.asarray(m), cp.asarray(n).view(cp.uint32).reshape(m.shape), out)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda().bfloat16()
    rounded = RoundedWeights(model.parameters())
    history = []
    for step in range(500):
        x = torch.randn(128, 512, device="cuda", dtype=torch.bfloat16)
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        rounded.apply(lr=1e-2)
        model.zero_grad(set_to_none=False)
        history.append(loss.detach())
    print(torch.stack(history)[::50].tolist())


if __name__ == "__main__":
    main()
