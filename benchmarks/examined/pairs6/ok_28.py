"""Outer optimizer over slow links: pseudo gradients are reduced on the host with gloo."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class OuterOptimizer:
    def __init__(self, module, inner_steps=50, lr=0.7, momentum=0.9):
        self.params = list(module.parameters())
        self.inner_steps = inner_steps
        self.gloo = dist.new_group(backend="gloo")
        self.anchor = [p.detach().cpu().pin_memory() for p in self.params]
        self.delta = [torch.empty_like(a).pin_memory() for a in self.anchor]
        self.sgd = torch.optim.SGD(self.anchor, lr=lr, momentum=momentum, nesterov=True)
        self.stream = torch.cuda.Stream()
        self.count = 0

    @torch.no_grad()
    def _download(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for d, p in zip(self.delta, self.params):
                d.copy_(p, non_blocking=True)
            return self.stream.record_event()

    @torch.no_grad()
    def maybe_step(self):
        self.count += 1
        if self.count % self.inner_steps:
            return
        self._download().synchronize()
        world = dist.get_world_size()
        for a, d in zip(self.anchor, self.delta):
            torch.sub(a, d, out=d)
            dist.all_reduce(d, group=self.gloo)
            a.grad = d.div_(world)
        self.sgd.step()
        for p, a in zip(self.params, self.anchor):
            p.copy_(a, non_blocking=True)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(32000, 512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 32000)).cuda()
    inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
    outer = OuterOptimizer(model)
    for _ in range(2000):
        ids = torch.randint(0, 32000, (8, 257), device="cuda")
        logits = model(ids[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        inner.step()
        inner.zero_grad(set_to_none=True)
        outer.maybe_step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
