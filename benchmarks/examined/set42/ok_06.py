"""Gradient buckets in two alternating buffers, reduced next to backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class SwapBuffers:
    """Two flat buffers; each remembers when its last reduction was over."""

    def __init__(self, numel, device):
        self.flat = [torch.empty(numel, device=device) for _ in range(2)]
        self.finished = [None, None]
        self.index = 0

    @property
    def current(self):
        return self.flat[self.index]

    def retire(self, event):
        self.finished[self.index] = event
        self.index ^= 1
        ready = self.finished[self.index]
        if ready is not None:
            torch.cuda.current_stream().wait_event(ready)


class BucketedReducer:
    def __init__(self, module, numel):
        self.device = next(module.parameters()).device
        self.buffers = SwapBuffers(numel, self.device)
        self.comm = torch.cuda.Stream(self.device)
        self.world = dist.get_world_size()
        self.fill = 0
        self.pending = []
        self.average = {p: torch.zeros_like(p) for p in module.parameters()}
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, param):
        n = param.numel()
        if self.fill + n > self.buffers.current.numel():
            self._launch()
        self.buffers.current[self.fill:self.fill + n].copy_(param.grad.flatten())
        self.pending.append((param, self.fill, n))
        self.fill += n
        param.grad = None

    def _launch(self):
        flat = self.buffers.current[:self.fill]
        self.comm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.comm):
            dist.all_reduce(flat)
            for param, start, n in self.pending:
                self.average[param].view(-1).copy_(flat[start:start + n])
                self.average[param].div_(self.world)
            done = self.comm.record_event()
        self.buffers.retire(done)
        self.pending, self.fill = [], 0

    def finish(self):
        if self.pending:
            self._launch()
        torch.cuda.current_stream(self.device).wait_stream(self.comm)
        return self.average


def train(model, reducer, steps, device):
    for _ in range(steps):
        loss = model(torch.randn(32, 256, device=device)).square().mean()
        loss.backward()
        grads = reducer.finish()
        with torch.no_grad():
            for p, g in grads.items():
                p.sub_(g, alpha=0.05)
    return loss.item()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(10)]).to(device)
    print(train(model, BucketedReducer(model, 3 * 256 * 257), 30, device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
