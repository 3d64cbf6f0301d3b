"""Streaming DiLoCo: model fragments are averaged in the background between inner steps."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Fragment:
    """A part of the model with its own outer state and communication stream."""

    def __init__(self, module: nn.Module, outer_lr=0.7, alpha=0.5):
        self.params = list(module.parameters())
        self.backup = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream()
        self.outer_lr = outer_lr
        self.alpha = alpha
        self.pseudo_grads = []
        self.packed = []
        self.works = []

    def prepare_sync(self, world):
        """Starts averaging the drift since the last sync; returns at once."""
        with torch.no_grad():
            self.pseudo_grads = [(ref - p).div_(world) for p, ref in zip(self.params, self.backup)]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for delta in self.pseudo_grads:
                packed = delta.bfloat16()
                self.packed.append(packed)
                self.works.append(dist.all_reduce(packed, async_op=True))

    def perform_sync(self):
        """Waits for the averages and merges them into the local parameters."""
        with torch.cuda.stream(self.stream):
            for work, packed, delta in zip(self.works, self.packed, self.pseudo_grads):
                work.wait()
                delta.copy_(packed)
        with torch.no_grad():
            for p, ref, delta in zip(self.params, self.backup, self.pseudo_grads):
                ref.sub_(delta, alpha=self.outer_lr)
                p.lerp_(ref, self.alpha)
        self.works.clear()
        self.packed.clear()
        self.pseudo_grads.clear()


class StreamingDiLoCo:
    def __init__(self, fragments, sync_every, delay):
        self.fragments = [Fragment(m) for m in fragments]
        self.sync_every = sync_every
        self.delay = delay
        self.local_step = 0
        self.world = dist.get_world_size()
        self.in_flight = {}

    def step(self):
        self.local_step += 1
        for index, fragment in enumerate(self.fragments):
            offset = index * (self.sync_every // len(self.fragments))
            phase = (self.local_step - offset) % self.sync_every
            if self.local_step > offset and phase == 0:
                fragment.prepare_sync(self.world)
                self.in_flight[index] = self.local_step + self.delay
            if self.in_flight.get(index) == self.local_step:
                fragment.perform_sync()
                del self.in_flight[index]


class Net(nn.Module):
    def __init__(self, dim=2048, depth=8):
        super().__init__()
        self.lower = nn.Sequential(*[m for _ in range(depth // 2) for m in (nn.Linear(dim, dim), nn.GELU())])
        self.upper = nn.Sequential(*[m for _ in range(depth // 2) for m in (nn.Linear(dim, dim), nn.GELU())])

    def forward(self, x):
        return self.upper(self.lower(x))


class Trainer:
    def __init__(self, device):
        torch.manual_seed(0)
        self.device = device
        self.net = Net().to(device)
        self.inner = torch.optim.AdamW(self.net.parameters(), lr=1e-4, foreach=True)
        self.outer = StreamingDiLoCo([self.net.lower, self.net.upper], sync_every=20, delay=5)

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.inner.zero_grad(set_to_none=True)
        loss.backward()
        self.inner.step()
        self.outer.step()
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    trainer = Trainer(device)
    losses = []
    for _ in range(200):
        x = torch.randn(512, 2048, device=device)
        losses.append(trainer.step(x, torch.roll(x, 1, dims=1)))
    print(float(torch.stack(losses).mean()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
