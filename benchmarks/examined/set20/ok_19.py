"""Non-interleaved pipeline schedule with asynchronous point-to-point communication."""
from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class FutureTensor:
    def __init__(self, tensor: torch.Tensor, waitfunc):
        self.tensor = tensor
        self.waitfunc = waitfunc

    def get(self):
        if self.waitfunc is not None:
            self.waitfunc()
            self.waitfunc = None
        return self.tensor


class PendingSends:
    def __init__(self):
        self.items = []

    def add(self, req, tensor):
        self.items.append((req, tensor))

    def drain(self, keep=0):
        while len(self.items) > keep:
            req, _tensor = self.items[0]
            req.wait()
            self.items.pop(0)


class P2P:
    def __init__(self, rank, world_size, shape, dtype, device):
        self.rank = rank
        self.world_size = world_size
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.sends = PendingSends()

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world_size - 1

    def recv(self, src: int) -> FutureTensor:
        buf = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        req = dist.irecv(buf, src)
        return FutureTensor(buf, req.wait)

    def send(self, tensor: torch.Tensor, dst: int):
        tensor = tensor.detach().contiguous()
        self.sends.add(dist.isend(tensor, dst), tensor)

    def recv_forward(self) -> Optional[FutureTensor]:
        return None if self.first else self.recv(self.rank - 1)

    def recv_backward(self) -> Optional[FutureTensor]:
        return None if self.last else self.recv(self.rank + 1)


class PipelineStage:
    def __init__(self, module: nn.Module, p2p: P2P, loss_fn):
        self.module = module
        self.p2p = p2p
        self.loss_fn = loss_fn

    def forward_backward(self, microbatches: List[torch.Tensor], targets):
        inputs, outputs, losses = [], [], []
        n = len(microbatches)
        pending = self.p2p.recv_forward()
        for i in range(n):
            x = microbatches[i] if pending is None else pending.get()
            if not self.p2p.first:
                x = x.requires_grad_()
                pending = self.p2p.recv_forward() if i + 1 < n else None
            y = self.module(x)
            if self.p2p.last:
                y = self.loss_fn(y, targets[i]) / n
                losses.append(y.detach())
            else:
                self.p2p.send(y, self.p2p.rank + 1)
            inputs.append(x)
            outputs.append(y)
            self.p2p.sends.drain(keep=2)
        self.p2p.sends.drain()
        for i in range(n):
            grad = self.p2p.recv_backward()
            if grad is None:
                outputs[i].backward()
            else:
                torch.autograd.backward(outputs[i], grad.get())
            if not self.p2p.first:
                self.p2p.send(inputs[i].grad, self.p2p.rank - 1)
        self.p2p.sends.drain()
        return torch.stack(losses).sum() if losses else None


def train(data, hidden=4096, micro=8, steps=100):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    module = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, hidden)).to(device)
    opt = torch.optim.SGD(module.parameters(), lr=1e-3)
    p2p = P2P(rank, world, (32, hidden), torch.float32, device)
    stage = PipelineStage(module, p2p, nn.functional.mse_loss)
    for _, (x, y) in zip(range(steps), data):
        mbs = list(x.to(device).chunk(micro)) if p2p.first else [None] * micro
        tgt = list(y.to(device).chunk(micro)) if p2p.last else None
        stage.forward_backward(mbs, tgt)
        opt.step()
        opt.zero_grad(set_to_none=True)
