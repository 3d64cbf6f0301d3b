"""One stage of a pipeline; activations and gradients travel on a stream for receives."""
import os
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class StageComm:
    def __init__(self, rank, world_size, device):
        self.device = device
        self.forward_group = dist.group.WORLD
        self.backward_group = dist.new_group(backend="nccl")
        self.prev_rank = rank - 1 if rank > 0 else None
        self.next_rank = rank + 1 if rank < world_size - 1 else None
        self.recv_stream = torch.cuda.Stream(device=device)
        self._sends = deque()

    def _recv(self, shape, peer, group):
        buffer = torch.empty(shape, device=self.device)
        compute = torch.cuda.current_stream(self.device)
        self.recv_stream.wait_stream(compute)
        with torch.cuda.stream(self.recv_stream):
            dist.recv(buffer, src=peer, group=group)
        buffer.record_stream(self.recv_stream)
        return buffer

    def recv_forward(self, shape):
        activation = self._recv(shape, self.prev_rank, self.forward_group)
        torch.cuda.current_stream(self.device).wait_stream(self.recv_stream)
        return activation.requires_grad_()

    def recv_backward(self, shape):
        return self._recv(shape, self.next_rank, self.backward_group)

    def send(self, tensor, peer, group):
        tensor = tensor.detach().contiguous()
        self._sends.append((dist.isend(tensor, dst=peer, group=group), tensor))

    def drain_sends(self, keep=0):
        while len(self._sends) > keep:
            work, _ = self._sends.popleft()
            work.wait()


class PipelineStage:
    def __init__(self, module, comm, micro_shape):
        self.module = module
        self.comm = comm
        self.micro_shape = micro_shape
        self.optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
        self._saved = deque()

    def forward_one(self, source=None):
        x = source if self.comm.prev_rank is None else self.comm.recv_forward(self.micro_shape)
        y = self.module(x)
        if self.comm.next_rank is None:
            y = y.square().mean()
        else:
            self.comm.send(y, self.comm.next_rank, self.comm.forward_group)
        self._saved.append((x, y))

    def backward_one(self):
        x, y = self._saved.popleft()
        if self.comm.next_rank is None:
            y.backward()
        else:
            grad = self.comm.recv_backward(y.shape)
            torch.autograd.backward(y, grad_tensors=grad)
        if self.comm.prev_rank is not None:
            self.comm.send(x.grad, self.comm.prev_rank, self.comm.backward_group)

    def train_step(self, micro_batches, warmup):
        self.optimizer.zero_grad(set_to_none=True)
        total = len(micro_batches)
        done = 0
        for index, source in enumerate(micro_batches):
            self.forward_one(source)
            if index >= warmup:
                self.backward_one()
                done += 1
        while done < total:
            self.backward_one()
            done += 1
        self.comm.drain_sends()
        self.optimizer.step()


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    layers = [nn.Linear(2048, 2048) if i % 2 == 0 else nn.GELU() for i in range(16)]
    stage = PipelineStage(nn.Sequential(*layers).to(device), StageComm(rank, world, device), (64, 2048))
    for _ in range(10):
        data = [torch.randn(64, 2048, device=device) for _ in range(8)]
        stage.train_step(data, warmup=world - rank - 1)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
