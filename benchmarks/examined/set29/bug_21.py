"""Colocated policy refit: the trainer packs weights into a shared bucket, the worker loads it."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.multiprocessing as mp
from torch import nn

BUCKET_NUMEL = 1 << 25


@dataclass
class BucketLayout:
    entries: list[tuple[str, tuple[int, ...], int]]


def build_model(layers: int, dim: int) -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(dim, dim, bias=False) for _ in range(layers)])


class PolicyTrainer:
    """Owns the bucket; its handle is sent once, layouts are sent for every fill."""

    def __init__(self, layers: int, dim: int) -> None:
        self.model = build_model(layers, dim).cuda()
        self.bucket = torch.empty(BUCKET_NUMEL, device="cuda")

    @torch.no_grad()
    def train_step(self) -> None:
        for p in self.model.parameters():
            p.add_(torch.randn_like(p), alpha=1e-3)

    def plan(self) -> list[BucketLayout]:
        layouts, current, offset = [], [], 0
        for name, p in self.model.named_parameters():
            if offset + p.numel() > BUCKET_NUMEL:
                layouts.append(BucketLayout(current))
                current, offset = [], 0
            current.append((name, tuple(p.shape), offset))
            offset += p.numel()
        return layouts + [BucketLayout(current)]

    @torch.no_grad()
    def stream_weights(self, layout_q: mp.Queue, ack_q: mp.Queue) -> None:
        params = dict(self.model.named_parameters())
        for layout in self.plan():
            for name, shape, offset in layout.entries:
                p = params[name]
                self.bucket[offset : offset + p.numel()].copy_(p.flatten())
            torch.cuda.current_stream().synchronize()
            layout_q.put(layout)
            ack_q.get()


class GenerationWorker:
    def __init__(self, layers: int, dim: int) -> None:
        self.model = build_model(layers, dim).cuda().eval()
        self.params = dict(self.model.named_parameters())
        self.dim = dim

    @torch.no_grad()
    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            self.params[name].copy_(tensor)

    def update_weights_from_bucket(self, bucket: torch.Tensor, layout: BucketLayout) -> bool:
        weights = []
        for name, shape, offset in layout.entries:
            numel = self.params[name].numel()
            weights.append((name, bucket[offset : offset + numel].view(shape)))
        self.load_weights(weights)
        return True

    @torch.inference_mode()
    def generate(self, steps: int) -> None:
        x = torch.randn(256, self.dim, device="cuda")
        for _ in range(steps):
            x = torch.tanh(self.model(x))
        self.hidden = x


def worker_main(layers: int, dim: int, bucket_q, layout_q, ack_q, result_q) -> None:
    worker = GenerationWorker(layers, dim)
    bucket = bucket_q.get()
    while (layout := layout_q.get()) is not None:
        if not layout.entries:
            worker.generate(steps=64)
            ack_q.put(True)
            continue
        ack_q.put(worker.update_weights_from_bucket(bucket, layout))
    result_q.put([p.sum().item() for p in worker.params.values()])
    del bucket
    ack_q.put(True)


def main() -> None:
    layers, dim, rounds = 16, 4096, 4
    ctx = mp.get_context("spawn")
    bucket_q, layout_q, ack_q, result_q = (ctx.Queue() for _ in range(4))
    proc = ctx.Process(target=worker_main, args=(layers, dim, bucket_q, layout_q, ack_q, result_q))
    proc.start()
    trainer = PolicyTrainer(layers, dim)
    bucket_q.put(trainer.bucket)
    for _ in range(rounds):
        trainer.train_step()
        layout_q.put(BucketLayout([]))
        ack_q.get()
        trainer.stream_weights(layout_q, ack_q)
    layout_q.put(None)
    loaded = result_q.get()
    ack_q.get()
    proc.join()
    expected = [p.sum().item() for p in trainer.model.parameters()]
    print(max(abs(a - b) for a, b in zip(loaded, expected)))


if __name__ == "__main__":
    main()
