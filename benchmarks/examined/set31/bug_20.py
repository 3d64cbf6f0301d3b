"""Exponential moving average of parameters kept on the CPU between updates."""
import copy

import torch


class CpuEMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.host = [torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params]
        for h, p in zip(self.host, self.params):
            h.copy_(p.detach())

    @torch.no_grad()
    def step(self):
        shadow = [h.to(self.device, non_blocking=True) for h in self.host]
        torch._foreach_lerp_(shadow, [p.detach() for p in self.params], 1 - self.decay)
        for h, s in zip(self.host, shadow):
            h.copy_(s, non_blocking=True)

    def state_dict(self):
        return {
            "decay": self.decay,
            "shadow": [h.clone() for h in self.host],
        }

    @torch.no_grad()
    def copy_to(self, model):
        for h, p in zip(self.host, model.parameters()):
            p.copy_(h, non_blocking=True)


def train(model, loader, ema, opt, save_every=100):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        ema.step()
        if (i + 1) % save_every == 0:
            state = ema.state_dict()
            torch.save(copy.copy(state), f"ema_{i + 1}.pt")


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    data = [(torch.randn(16, 2048), torch.randn(16, 2048)) for _ in range(200)]
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    train(model, data, CpuEMA(model), opt)


if __name__ == "__main__":
    main()
