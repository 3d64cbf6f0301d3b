"""Fill-drain pipeline stage with outstanding sends."""
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class Mailbox:
    def __init__(self, limit=2):
        self.sends = deque()
        self.limit = limit

    def post(self, tensor: torch.Tensor, dst: int):
        tensor = tensor.detach().contiguous()
        self.sends.append((dist.isend(tensor, dst), tensor))
        while len(self.sends) > self.limit:
            work, held = self.sends.popleft()
            work.wait()
            del held

    def flush(self):
        while self.sends:
            self.sends.popleft()[0].wait()

    @staticmethod
    def fetch(shape, src: int) -> torch.Tensor:
        buf = torch.empty(shape, device="cuda")
        dist.irecv(buf, src).wait()
        return buf


class Stage:
    def __init__(self, dim=256, batch=8):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.Tanh()).cuda()
        self.shape = (batch, dim)
        self.forward_box, self.backward_box = Mailbox(), Mailbox()
        self.saved = deque()

    def forward_one(self):
        if self.rank == 0:
            x = torch.randn(self.shape, device="cuda")
        else:
            x = Mailbox.fetch(self.shape, self.rank - 1).requires_grad_()
        y = self.net(x)
        if self.rank + 1 < self.world:
            self.forward_box.post(y, self.rank + 1)
        self.saved.append((x, y))

    def backward_one(self):
        x, y = self.saved.popleft()
        if self.rank + 1 < self.world:
            y.backward(Mailbox.fetch(self.shape, self.rank + 1))
        else:
            y.square().mean().backward()
        if self.rank > 0:
            self.backward_box.post(x.grad, self.rank - 1)

    def run(self, micro: int):
        for _ in range(micro):
            self.forward_one()
        self.forward_box.flush()
        for _ in range(micro):
            self.backward_one()
        self.backward_box.flush()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    stage = Stage()
    opt = torch.optim.SGD(stage.net.parameters(), lr=0.1)
    for _ in range(3):
        stage.run(8)
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
