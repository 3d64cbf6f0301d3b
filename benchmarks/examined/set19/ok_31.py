"""Data-parallel optimizer that applies the averaged gradients one step late."""
import os

import torch
import torch.distributed as dist
from torch import nn


class DoubleBufferingOptimizer:
    """Reduces the gradients of step t while step t + 1 computes."""

    def __init__(self, actual, params):
        self.actual = actual
        self.params = [p for p in params if p.requires_grad]
        total = sum(p.numel() for p in self.params)
        device = self.params[0].device
        self.comm_stream = torch.cuda.Stream(device=device)
        self.flat = [torch.zeros(total, device=device) for _ in range(2)]
        self.packed = [torch.cuda.Event() for _ in range(2)]
        self.reduced = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def _pack(self, flat):
        offset = 0
        for p in self.params:
            flat[offset:offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()

    def _unpack(self, flat):
        offset = 0
        for p in self.params:
            p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()

    def _allreduce_async(self, slot):
        self.packed[slot].record()
        self.comm_stream.wait_event(self.packed[slot])
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(self.flat[slot])
            self.flat[slot].div_(dist.get_world_size())
            self.reduced[slot].record()

    def _apply(self, slot):
        torch.cuda.current_stream().wait_event(self.reduced[slot])
        self._unpack(self.flat[slot])
        self.actual.step()

    def update(self):
        slot = self.turn % 2
        self._pack(self.flat[slot])
        self._allreduce_async(slot)
        if self.turn > 0:
            self._apply(1 - slot)
        self.actual.zero_grad(set_to_none=False)
        self.turn += 1

    def flush(self):
        if self.turn > 0:
            self._apply((self.turn - 1) % 2)
            self.actual.zero_grad(set_to_none=False)


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
    optimizer = DoubleBufferingOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05), model.parameters())

    torch.manual_seed(dist.get_rank() + 1)
    for step in range(100):
        x = torch.randn(256, 512, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.update()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    optimizer.flush()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
