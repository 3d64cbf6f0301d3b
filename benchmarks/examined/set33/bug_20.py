"""Optimizer states and master weights in host memory; gradients leave the GPU during backward."""
import torch
from torch import nn


def to_host(dst, src):
    """Copy between devices; goes through the copy engine when the destination is page locked."""
    return dst.copy_(src, non_blocking=dst.is_pinned())


class HostMaster:
    def __init__(self, param):
        self.param = param
        self.weight = torch.empty(param.shape, dtype=torch.float32, pin_memory=True)
        self.weight.copy_(param.detach())
        self.grad = torch.zeros(param.shape, dtype=torch.float32, pin_memory=True)
        self.exp_avg = torch.zeros_like(self.weight)
        self.exp_avg_sq = torch.zeros_like(self.weight)


class HostAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, max_norm=1.0):
        self.masters = {p: HostMaster(p) for p in params if p.requires_grad}
        self.lr, self.betas, self.eps, self.max_norm = lr, betas, eps, max_norm
        self.t = 0
        for p in self.masters:
            p.register_post_accumulate_grad_hook(self._offload_grad)

    @torch.no_grad()
    def _offload_grad(self, p):
        to_host(self.masters[p].grad, p.grad.float())
        p.grad = None

    def _clip(self):
        total = torch.stack([m.grad.norm() for m in self.masters.values()]).norm()
        scale = self.max_norm / (float(total) + 1e-6)
        if scale < 1.0:
            for m in self.masters.values():
                m.grad.mul_(scale)

    @torch.no_grad()
    def step(self):
        self.t += 1
        self._clip()
        b1, b2 = self.betas
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        for p, m in self.masters.items():
            m.exp_avg.mul_(b1).add_(m.grad, alpha=1 - b1)
            m.exp_avg_sq.mul_(b2).addcmul_(m.grad, m.grad, value=1 - b2)
            denom = (m.exp_avg_sq / c2).sqrt_().add_(self.eps)
            m.weight.addcdiv_(m.exp_avg / c1, denom, value=-self.lr)
            p.copy_(m.weight)


class LanguageHead(nn.Module):
    def __init__(self, vocab=32000, dim=1024, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])
        self.out = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        return self.out(self.body(self.embed(ids)))


def train(batches, device="cuda:0"):
    model = LanguageHead().to(device)
    optimizer = HostAdam(model.parameters())
    losses = []
    for ids, target in batches:
        logits = model(ids.to(device))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.to(device).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()
