"""Weight-gathered blocks run as segments: each segment prefetches the next one's weight."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


class GatheredWeight:
    """A row-sharded weight with one persistent full-size buffer."""

    def __init__(self, rows: int, cols: int) -> None:
        world = dist.get_world_size()
        self.shard = torch.randn(rows // world, cols, device="cuda") * cols ** -0.5
        self.full = torch.empty(rows, cols, device="cuda")
        self.prefetched = False

    def gather(self) -> None:
        dist.all_gather_into_tensor(self.full, self.shard)


class Segment:
    def __init__(self, weight: GatheredWeight, fwd_stream: torch.cuda.Stream,
                 ag_stream: torch.cuda.Stream) -> None:
        self.weight = weight
        self.fwd_stream = fwd_stream
        self.ag_stream = ag_stream
        self.next_weight: GatheredWeight | None = None
        self.completion = torch.cuda.Event()
        self.ag_event = torch.cuda.Event()

    def _prefetch_next(self) -> None:
        self.ag_stream.wait_stream(self.fwd_stream)
        with torch.cuda.stream(self.ag_stream):
            self.next_weight.gather()
            self.ag_event.record(self.ag_stream)
        self.next_weight.prefetched = True

    def forward(self, x: torch.Tensor, incoming: torch.cuda.Event | None) -> torch.Tensor:
        with torch.cuda.stream(self.fwd_stream):
            if self.weight.prefetched:
                self.fwd_stream.wait_event(incoming)
                self.weight.prefetched = False
            else:
                self.weight.gather()
            if self.next_weight is not None:
                self._prefetch_next()
            y = torch.relu(x @ self.weight.full.T)
            self.completion.record(self.fwd_stream)
            if self.next_weight is not None:
                self.fwd_stream.wait_event(self.ag_event)
        return y


class SegmentedModel:
    def __init__(self, dim: int, depth: int, vocab: int) -> None:
        self.fwd_stream = torch.cuda.Stream()
        self.ag_stream = torch.cuda.Stream(priority=-1)
        weights = [GatheredWeight(dim, dim) for _ in range(depth)]
        self.head = GatheredWeight(vocab, dim)
        self.segments = [Segment(w, self.fwd_stream, self.ag_stream) for w in weights]
        for segment, nxt in zip(self.segments, weights[1:] + [self.head]):
            segment.next_weight = nxt
        self.norm = nn.LayerNorm(dim).cuda()
        torch.cuda.synchronize()

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.fwd_stream.wait_stream(caller)
        x.record_stream(self.fwd_stream)
        incoming = None
        for segment in self.segments:
            x = segment.forward(x, incoming)
            incoming = segment.ag_event
        caller.wait_event(self.segments[-1].completion)
        x.record_stream(caller)
        self.head.prefetched = False
        logits = self.norm(x) @ self.head.full.T
        return logits.argmax(dim=-1)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = SegmentedModel(dim=2048, depth=6, vocab=65536)
    for _ in range(10):
        tokens = model.forward(torch.randn(64, 2048, device="cuda"))
    print(tokens[:8].tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
