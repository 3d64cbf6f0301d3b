"""Fused all-reduce of a mapping of tensors; results are unpacked when the handle is waited on."""
import os
from typing import Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn


class FusedWork:
    """Stands for all collectives of one call; unpacks once, at the first wait."""

    def __init__(self, parts, outputs):
        self._parts = parts
        self._outputs = outputs
        self._done = False

    def wait(self):
        if self._done:
            return True
        for work, flat, names in self._parts:
            work.wait()
            offset = 0
            for name in names:
                out = self._outputs[name]
                out.copy_(flat[offset:offset + out.numel()].view_as(out))
                offset += out.numel()
        self._parts = []
        self._done = True
        return True

    def is_completed(self):
        return self._done


def fused_all_reduce(tensors: Dict[str, torch.Tensor], op=dist.ReduceOp.SUM, async_op=False):
    by_dtype: Dict[torch.dtype, List[str]] = {}
    outputs = {}
    for name, t in tensors.items():
        outputs[name] = t.detach().clone()
        by_dtype.setdefault(t.dtype, []).append(name)
    parts = []
    for names in by_dtype.values():
        flat = torch.cat([outputs[n].reshape(-1) for n in names])
        work = dist.all_reduce(flat, op=op, async_op=True)
        parts.append((work, flat, names))
    handle = FusedWork(parts, outputs)
    if async_op:
        return outputs, handle
    handle.wait()
    return outputs


class Meter:
    """Keeps the newest step in flight and folds it in one step later."""

    def __init__(self):
        self.pending = None
        self.sums = {}
        self.count = 0

    def push(self, metrics):
        self._fold()
        self.pending = fused_all_reduce(metrics, async_op=True)

    def _fold(self):
        if self.pending is None:
            return
        values, handle = self.pending
        handle.wait()
        for k, v in values.items():
            self.sums[k] = self.sums.get(k, 0) + v.double()
        self.count += 1
        self.pending = None

    def result(self, world):
        self._fold()
        return {k: (v / (self.count * world)).item() for k, v in self.sums.items()}


def main(steps=50):
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    torch.manual_seed(local)
    net = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
    for p in net.parameters():
        dist.broadcast(p.data, 0)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    names = [n for n, _ in net.named_parameters()]
    meter = Meter()
    for _ in range(steps):
        x = torch.randn(4096, 512, device="cuda")
        loss = (net(x) - x).square().mean()
        loss.backward()
        grads, work = fused_all_reduce({n: p.grad for n, p in net.named_parameters()}, async_op=True)
        meter.push({"loss": loss.detach(), "hits": (x > 0).sum()})
        work.wait()
        for n, p in zip(names, net.parameters()):
            p.grad.copy_(grads[n] / dist.get_world_size())
        opt.step()
        opt.zero_grad()
    summary = meter.result(dist.get_world_size())
    if local == 0:
        print(summary)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
