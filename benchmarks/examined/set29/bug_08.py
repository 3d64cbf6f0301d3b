"""Mixture-of-experts layer over an asynchronous expert-parallel exchange buffer."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


class EventOverlap:
    """Completion of work queued on the communication stream."""

    def __init__(self, event: torch.cuda.Event | None = None) -> None:
        self.event = event

    def current_stream_wait(self) -> None:
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class Buffer:
    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.comm_stream = torch.cuda.Stream(priority=-1)

    @staticmethod
    def capture() -> EventOverlap:
        event = torch.cuda.Event()
        event.record()
        return EventOverlap(event)

    def _enter(self, previous_event: EventOverlap) -> None:
        self.comm_stream.wait_event(previous_event.event)

    def dispatch(self, x: torch.Tensor, splits: list[int], previous_event: EventOverlap,
                 async_finish: bool):
        self._enter(previous_event)
        compute_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.comm_stream):
            packed = x * (x.shape[1] ** -0.5)
            recv_x = torch.empty(sum(splits), x.shape[1], dtype=x.dtype, device=x.device)
            dist.all_to_all_single(recv_x, packed, output_split_sizes=splits, group=self.group)
            event = self.capture()
        recv_x.record_stream(compute_stream)
        return recv_x, splits, self._leave(event, async_finish)

    def combine(self, y: torch.Tensor, splits: list[int], previous_event: EventOverlap,
                async_finish: bool):
        self._enter(previous_event)
        compute_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.comm_stream):
            scaled = y * (y.shape[1] ** 0.5)
            out = torch.empty(sum(splits), y.shape[1], dtype=y.dtype, device=y.device)
            dist.all_to_all_single(out, scaled, input_split_sizes=splits, group=self.group)
            event = self.capture()
        out.record_stream(compute_stream)
        return out, self._leave(event, async_finish)

    @staticmethod
    def _leave(event: EventOverlap, async_finish: bool) -> EventOverlap:
        if not async_finish:
            event.current_stream_wait()
            return EventOverlap()
        return event


class MoELayer(nn.Module):
    def __init__(self, dim: int, hidden: int, buffer: Buffer) -> None:
        super().__init__()
        self.buffer = buffer
        self.norm = nn.LayerNorm(dim)
        self.expert = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.shared = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x: torch.Tensor, splits: list[int]) -> torch.Tensor:
        recv, handle, event = self.buffer.dispatch(
            self.norm(x), splits, self.buffer.capture(), async_finish=True
        )
        shared = self.shared(x)
        event.current_stream_wait()
        routed, event = self.buffer.combine(
            self.expert(recv), handle, self.buffer.capture(), async_finish=True
        )
        residual = x + shared
        event.current_stream_wait()
        return residual + routed


@torch.no_grad()
def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layer = MoELayer(2048, 4096, Buffer(dist.group.WORLD)).cuda()
    world = dist.get_world_size()
    for _ in range(8):
        x = torch.randn(1024 * world, 2048, device="cuda")
        out = layer(x, [1024] * world)
    print(out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
