import os

import torch
import torch.distributed as dist
from torch import nn


class OverlappedTrainer:
    """Data-parallel trainer that reduces each gradient as soon as it is accumulated."""

    def __init__(self, model, lr=1e-3):
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._model = model.to(self._device)
        self._comm = torch.cuda.Stream(self._device, priority=-1)
        self._world = dist.get_world_size()
        self._reduce_now = False
        for param in self._model.parameters():
            dist.broadcast(param.data, src=0)
            param.register_post_accumulate_grad_hook(self._on_grad)
        self._opt = torch.optim.Adam(self._model.parameters(), lr=lr)

    def _on_grad(self, param):
        if not self._reduce_now:
            return
        self._comm.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._comm):
            dist.all_reduce(param.grad)
            param.grad.div_(self._world)

    def step(self, micro_batches):
        current = torch.cuda.current_stream(self._device)
        self._opt.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self._device)
        last = len(micro_batches) - 1
        try:
            for index, (x, y) in enumerate(micro_batches):
                self._reduce_now = index == last
                x = x.to(self._device, non_blocking=True)
                y = y.to(self._device, non_blocking=True)
                loss = nn.functional.mse_loss(self._model(x), y) / len(micro_batches)
                loss.backward()
                total += loss.detach()
        finally:
            self._reduce_now = False
            current.wait_stream(self._comm)
        norm = nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._opt.step()
        return total, norm

    def mean_loss(self, value):
        value = value.clone()
        dist.all_reduce(value)
        return (value / self._world).item()


def build(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    trainer = OverlappedTrainer(build(256))
    gen = torch.Generator().manual_seed(dist.get_rank())
    for step in range(20):
        batches = []
        for _ in range(4):
            x = torch.randn(64, 256, generator=gen).pin_memory()
            batches.append((x, x.flip(1).pin_memory()))
        loss, norm = trainer.step(batches)
        if step % 5 == 0:
            mean = trainer.mean_loss(loss)
            if dist.get_rank() == 0:
                print(step, mean, norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
