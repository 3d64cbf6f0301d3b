"""Pipeline stages that exchange activations point to point."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class P2PCommunicator:
    def __init__(self, rank, world, shape, device):
        self.prev = rank - 1 if rank > 0 else None
        self.next = rank + 1 if rank + 1 < world else None
        self.shape = shape
        self.device = device

    def _communicate(self, tensor_send_next, recv_prev):
        ops = []
        tensor_recv_prev = None
        if recv_prev and self.prev is not None:
            tensor_recv_prev = torch.empty(self.shape, device=self.device)
            ops.append(dist.P2POp(dist.irecv, tensor_recv_prev, self.prev))
        if tensor_send_next is not None and self.next is not None:
            ops.append(dist.P2POp(dist.isend, tensor_send_next, self.next))
        reqs = dist.batch_isend_irecv(ops) if ops else []
        return tensor_recv_prev, reqs

    def recv_forward(self):
        tensor, reqs = self._communicate(None, recv_prev=True)
        for req in reqs:
            req.wait()
        return tensor

    def send_forward_recv_forward(self, output, recv_prev):
        return self._communicate(output, recv_prev)


class Stage(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU())
                                    for _ in range(layers)])

    def forward(self, x):
        return self.body(x)


class ForwardSchedule:
    """Forward-only schedule with one receive in flight."""

    def __init__(self, stage, comm, first):
        self.stage = stage
        self.comm = comm
        self.first = first
        self.in_flight = []
        self.sent = []

    def _next_input(self, received, feed):
        return next(feed) if self.first else received

    @torch.no_grad()
    def run(self, num_microbatches, feed):
        outputs = []
        received = None if self.first else self.comm.recv_forward()
        for i in range(num_microbatches):
            x = self._next_input(received, feed)
            y = self.stage(x)
            last = i == num_microbatches - 1
            received, reqs = self.comm.send_forward_recv_forward(y, recv_prev=not last)
            self.in_flight.extend(reqs)
            self.sent.append(y)
            outputs.append(y)
        self.drain()
        return outputs

    def drain(self):
        for req in self.in_flight:
            req.wait()
        self.in_flight.clear()
        self.sent.clear()


def batches(count, shape, device):
    for _ in range(count):
        yield torch.randn(shape, device=device)


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    shape = (32, 1024)
    comm = P2PCommunicator(rank, world, shape, device)
    sched = ForwardSchedule(Stage(1024, 4).to(device), comm, rank == 0)
    outs = sched.run(16, batches(16, shape, device))
    if rank == world - 1:
        print(torch.stack(outs).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
