from __future__ import annotations

from typing import Callable, Optional

import torch


class EventHandle:
    def __init__(self, stream: Optional[torch.cuda.Stream] = None) -> None:
        self.event = torch.cuda.Event()
        self.event.record(stream if stream is not None else torch.cuda.current_stream())

    def current_stream_wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """Event plus the tensors that must outlive it; waits when its block ends."""

    def __init__(self, event: Optional[EventHandle] = None, extra_tensors: Optional[tuple] = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self) -> None:
        assert self.event is not None
        self.event.current_stream_wait()
        self.extra_tensors = None

    def __enter__(self) -> "EventOverlap":
        return self

    def __exit__(self, exc_type, exc_val, exc_tb) -> None:
        if self.event is not None:
            self.current_stream_wait()


class Buffer:
    def __init__(self, num_experts: int) -> None:
        self.num_experts = num_experts
        self.comm_stream = torch.cuda.Stream(priority=-1)

    def capture(self) -> EventOverlap:
        return EventOverlap(EventHandle())

    def dispatch(self, x: torch.Tensor, topk: torch.Tensor, previous_event: EventOverlap):
        compute = torch.cuda.current_stream()
        order = torch.empty(topk.numel(), dtype=torch.long, device=x.device)
        recv = torch.empty(topk.numel(), x.size(1), device=x.device, dtype=x.dtype)
        counts = torch.zeros(self.num_experts, dtype=torch.long, device=x.device)
        ready = EventHandle(compute)
        with torch.cuda.stream(self.comm_stream):
            previous_event.event.current_stream_wait()
            ready.current_stream_wait()
            flat = topk.flatten()
            order.copy_(torch.argsort(flat))
            torch.index_select(x, 0, order // topk.size(1), out=recv)
            counts.scatter_add_(0, flat, torch.ones_like(flat))
            done = EventHandle(self.comm_stream)
        return recv, order, counts, EventOverlap(done, (x, topk, flat, recv, order, counts))


def moe_layer(
    buffer: Buffer,
    x: torch.Tensor,
    gate: torch.Tensor,
    experts: torch.Tensor,
    shared: Callable[[torch.Tensor], torch.Tensor],
    k: int = 2,
) -> torch.Tensor:
    weights, topk = torch.softmax(x @ gate, dim=-1).topk(k, dim=-1)
    recv, order, counts, overlap = buffer.dispatch(x, topk, buffer.capture())
    with overlap:
        dense = shared(x)
    out = torch.empty_like(recv)
    start = 0
    for e, n in enumerate(counts.tolist()):
        if n:
            torch.mm(recv[start : start + n], experts[e], out=out[start : start + n])
        start += n
    flat_w = weights.flatten()[order].unsqueeze(1)
    return dense.index_add_(0, order // k, out * flat_w)


@torch.no_grad()
def main() -> None:
    buf = Buffer(8)
    gate = torch.randn(256, 8, device="cuda")
    experts = torch.randn(8, 256, 256, device="cuda") / 16
    shared = torch.nn.Linear(256, 256).cuda()
    x = torch.randn(512, 256, device="cuda")
    for _ in range(10):
        x = moe_layer(buf, x, gate, experts, shared).tanh()
    print(x.mean().item())


if __name__ == "__main__":
    main()
