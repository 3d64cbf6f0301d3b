"""Colocated trainer: gradient storage is dropped between training and rollout."""
import torch
from torch import nn


class GradArena:
    """One flat gradient buffer; every param.main_grad is a view of it."""

    def __init__(self, params, device="cuda"):
        self.params = [p for p in params if p.requires_grad]
        self.numel = sum(p.numel() for p in self.params)
        self.flat = torch.zeros(self.numel, device=device)
        self.nbytes = self.flat.untyped_storage().nbytes()
        self.link = torch.cuda.Stream(device)
        self.shard = torch.empty(self.numel, dtype=torch.bfloat16, device=device)
        self.sq_norm = torch.zeros((), device=device)
        self.link.wait_stream(torch.cuda.current_stream())
        offset = 0
        for p in self.params:
            p.main_grad = self.flat[offset:offset + p.numel()].view_as(p)
            p.register_post_accumulate_grad_hook(self._accumulate)
            offset += p.numel()

    @staticmethod
    def _accumulate(p):
        p.main_grad.add_(p.grad)
        p.grad = None

    def reduce(self, micro_batches):
        self.link.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.link):
            self.flat.div_(micro_batches)
            self.sq_norm.copy_(self.flat.square().sum())
            self.shard.copy_(self.flat)

    def offload(self):
        self.flat.untyped_storage().resize_(0)

    def restore(self):
        self.flat.untyped_storage().resize_(self.nbytes)
        self.flat.zero_()

    def apply(self, lr):
        torch.cuda.current_stream().wait_stream(self.link)
        scale = lr / self.sq_norm.sqrt().clamp(min=1.0)
        offset = 0
        with torch.no_grad():
            for p in self.params:
                step = self.shard[offset:offset + p.numel()].view_as(p)
                p.sub_(step.to(p.dtype) * scale)
                offset += p.numel()


class Colocated:
    def __init__(self, model, cache_shape):
        self.model = model.cuda()
        self.arena = GradArena(self.model.parameters())
        self.cache_shape = cache_shape

    def train_step(self, micro_batches):
        for x, y in micro_batches:
            nn.functional.mse_loss(self.model(x), y).backward()
        self.arena.reduce(len(micro_batches))
        self.arena.offload()

    @torch.no_grad()
    def rollout(self, prompt, steps):
        cache = torch.zeros(self.cache_shape, device="cuda")
        x = prompt
        for t in range(steps):
            x = self.model(x)
            cache[t % cache.shape[0], :x.shape[-1]] = x.mean(dim=0)
        return x, cache

    def iterate(self, batches, prompt, steps=32, lr=1e-3):
        for micro_batches in batches:
            self.train_step(micro_batches)
            yield self.rollout(prompt, steps)
            self.arena.apply(lr)
            self.arena.restore()
