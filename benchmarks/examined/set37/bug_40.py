"""Gradient averaging for PyTorch over a communicator that is driven directly."""
import os

import cupy as cp
import torch
import torch.distributed as dist
from cupy.cuda import nccl
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

_DTYPES = {
    torch.float32: nccl.NCCL_FLOAT32,
    torch.float16: nccl.NCCL_FLOAT16,
    torch.float64: nccl.NCCL_FLOAT64,
}


class Work:
    def __init__(self, event, result):
        self._event = event
        self._result = result

    def wait(self):
        """Orders the caller's stream after the collective."""
        torch.cuda.current_stream().wait_event(self._event)
        return self._result


class Communicator:
    def __init__(self, device):
        self.device = device
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        payload = [nccl.get_unique_id() if self.rank == 0 else None]
        dist.broadcast_object_list(payload, src=0)
        with cp.cuda.Device(device.index):
            self._comm = nccl.NcclCommunicator(self.world, payload[0], self.rank)
        self.stream = torch.cuda.Stream(device=device, priority=-1)

    def all_reduce(self, tensor, out):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self._comm.allReduce(
            tensor.data_ptr(), out.data_ptr(), tensor.numel(),
            _DTYPES[tensor.dtype], nccl.NCCL_SUM, self.stream.cuda_stream)
        return Work(self.stream.record_event(), out)


class GradientAverager:
    def __init__(self, model, comm, bucket_bytes=8 << 20):
        self.comm = comm
        self.buckets = self._assign(reversed(list(model.parameters())), bucket_bytes)
        self.results = [
            torch.empty(sum(p.numel() for p in bucket), device=comm.device)
            for bucket in self.buckets
        ]

    @staticmethod
    def _assign(params, limit):
        buckets, current, size = [], [], 0
        for p in params:
            current.append(p)
            size += p.numel() * p.element_size()
            if size >= limit:
                buckets.append(current)
                current, size = [], 0
        if current:
            buckets.append(current)
        return buckets

    def _launch(self, bucket, out):
        flat = _flatten_dense_tensors([p.grad for p in bucket])
        flat.div_(self.comm.world)
        return self.comm.all_reduce(flat, out)

    @torch.no_grad()
    def average(self):
        works = [self._launch(b, out) for b, out in zip(self.buckets, self.results)]
        for bucket, work in zip(self.buckets, works):
            grads = [p.grad for p in bucket]
            for grad, new in zip(grads, _unflatten_dense_tensors(work.wait(), grads)):
                grad.copy_(new)


def main(steps=30, hidden=2048):
    dist.init_process_group("gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(hidden, hidden) for _ in range(12))).to(device)
    averager = GradientAverager(model, Communicator(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(128, hidden, device=device)
        model(x).square().mean().backward()
        averager.average()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
