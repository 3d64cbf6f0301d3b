"""Many small tensors reduced in one collective, with the unpacking deferred to wait()."""
from __future__ import annotations

from collections import defaultdict
from typing import Mapping

import torch
import torch.distributed as dist
from torch import nn


class FusedWork:
    """Handle of an asynchronous fused reduction; outputs are filled in wait()."""

    def __init__(self) -> None:
        self._pending: list[tuple[dist.Work, torch.Tensor, list[torch.Tensor]]] = []
        self._completed = True

    def add(self, work: dist.Work, flat: torch.Tensor, outputs: list[torch.Tensor]) -> None:
        self._pending.append((work, flat, outputs))
        self._completed = False

    def is_completed(self) -> bool:
        return self._completed

    def wait(self) -> bool:
        for work, flat, outputs in self._pending:
            work.wait()
            offset = 0
            for out in outputs:
                n = out.numel()
                out.copy_(flat[offset : offset + n].view_as(out))
                offset += n
        self._pending.clear()
        self._completed = True
        return True


def fused_all_reduce(tensors: Mapping[str, torch.Tensor], op=dist.ReduceOp.SUM, group=None,
                     async_op: bool = False):
    outputs = {k: v.detach().clone() for k, v in tensors.items()}
    buckets: dict[torch.dtype, list[torch.Tensor]] = defaultdict(list)
    for value in outputs.values():
        buckets[value.dtype].append(value)
    handle = FusedWork()
    for members in buckets.values():
        flat = torch.cat([m.flatten() for m in members])
        work = dist.all_reduce(flat, op=op, group=group, async_op=True)
        handle.add(work, flat, members)
    if async_op:
        return outputs, handle
    handle.wait()
    return outputs


class MetricAverager:
    """Reduces the metrics of step i while step i + 1 is computed."""

    def __init__(self) -> None:
        self.pending = None
        self.history: list[dict[str, float]] = []

    def push(self, metrics: Mapping[str, torch.Tensor]) -> None:
        self._collect()
        self.pending = fused_all_reduce(metrics, async_op=True)

    def _collect(self) -> None:
        if self.pending is None:
            return
        outputs, handle = self.pending
        handle.wait()
        world = dist.get_world_size()
        self.history.append({k: float(v) / world for k, v in outputs.items()})
        self.pending = None

    def close(self) -> list[dict[str, float]]:
        self._collect()
        return self.history


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 3)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    averager = MetricAverager()
    for _ in range(50):
        x = torch.randn(256, 512, device="cuda")
        error = (model(x) - x[:, :3]).abs()
        loss = error.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        averager.push({
            "loss": loss,
            "mae": error.mean(),
            "hits": (error < 0.1).sum(),
        })
    if dist.get_rank() == 0:
        print(averager.close()[-1])
    else:
        averager.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
