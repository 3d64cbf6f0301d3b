"""ZeRO-3 style gradient partitioning for a single-process, multi-shard simulation."""
import contextlib

import torch
import torch.nn as nn


class Accelerator:
    """Thin device facade, so that the engine code does not name torch.cuda."""

    def current_stream(self):
        return torch.cuda.current_stream()

    def default_stream(self):
        return torch.cuda.default_stream()

    def Stream(self, **kw):
        return torch.cuda.Stream(**kw)

    def stream(self, s):
        return torch.cuda.stream(s)


_ACCEL = Accelerator()


def get_accelerator():
    return _ACCEL


class ShardedGradStore:
    def __init__(self, named_params, shards):
        self.shards = shards
        self.owner = {}
        self.stores = {}
        for i, (name, p) in enumerate(named_params):
            self.owner[name] = i % shards
            self.stores[name] = torch.zeros(p.numel(), dtype=torch.float32, device=p.device)

    def shard_norms(self):
        acc = [torch.zeros((), device="cuda") for _ in range(self.shards)]
        for name, flat in self.stores.items():
            acc[self.owner[name]] += flat.square().sum()
        return torch.stack(acc).sqrt()

    def clear(self):
        for flat in self.stores.values():
            flat.zero_()


class Stage3Engine:
    def __init__(self, module, lr=1e-3, shards=4, overlap=True):
        self.module = module
        self.named = list(module.named_parameters())
        self.lr = lr
        self.grads = ShardedGradStore(self.named, shards)
        accel = get_accelerator()
        self.compute_stream = accel.Stream(priority=-1)
        self.reduce_and_partition_stream = accel.Stream() if overlap else self.compute_stream
        self.compute_stream.wait_stream(accel.current_stream())

    @contextlib.contextmanager
    def _on_compute(self):
        with get_accelerator().stream(self.compute_stream):
            yield

    def _partition_grad(self, name, p):
        accel = get_accelerator()
        side = self.reduce_and_partition_stream
        side.wait_stream(accel.default_stream())
        with accel.stream(side):
            self.grads.stores[name].add_(p.grad.view(-1), alpha=1.0 / self.grads.shards)
        p.grad.record_stream(side)
        p.grad = None

    def train_batch(self, x, y):
        with self._on_compute():
            loss = nn.functional.mse_loss(self.module(x), y)
            loss.backward()
            for name, p in reversed(self.named):
                self._partition_grad(name, p)
        return loss.detach()

    def step(self):
        with self._on_compute(), torch.no_grad():
            self.compute_stream.wait_stream(self.reduce_and_partition_stream)
            norms = self.grads.shard_norms()
            scale = torch.clamp(1.0 / (norms.norm() + 1e-6), max=1.0)
            for name, p in self.named:
                p.sub_(self.lr * scale * self.grads.stores[name].view_as(p))
            self.grads.clear()
            self.reduce_and_partition_stream.wait_stream(self.compute_stream)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).cuda()
    x = torch.randn(4096, 2048, device="cuda")
    y = torch.randn(4096, 2048, device="cuda")
    engine = Stage3Engine(net)
    for _ in range(20):
        loss = engine.train_batch(x, y)
        engine.step()
    torch.cuda.synchronize()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
