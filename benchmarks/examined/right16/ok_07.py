"""Data-parallel gradient averaging in buckets, overlapped with backward."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class _Flight:
    work: dist.Work
    flat: torch.Tensor
    params: list[torch.nn.Parameter]


class BucketReducer:
    def __init__(self, module: torch.nn.Module, bucket_bytes: int = 1 << 22):
        self.bucket_bytes = bucket_bytes
        self._open: list[tuple[torch.nn.Parameter, torch.cuda.Event]] = []
        self._open_bytes = 0
        self._flights: list[_Flight] = []
        self.enabled = True
        self._handles = [
            p.register_post_accumulate_grad_hook(self._on_grad)
            for p in module.parameters()
            if p.requires_grad
        ]

    def _on_grad(self, param: torch.nn.Parameter) -> None:
        if not self.enabled:
            return
        self._open.append((param, torch.cuda.current_stream().record_event()))
        self._open_bytes += param.grad.numel() * param.grad.element_size()
        if self._open_bytes >= self.bucket_bytes:
            self._launch()

    def _launch(self) -> None:
        if not self._open:
            return
        stream = torch.cuda.current_stream()
        for _, accumulated in self._open:
            stream.wait_event(accumulated)
        params = [param for param, _ in self._open]
        flat = torch.cat([param.grad.reshape(-1) for param in params])
        flat.div_(dist.get_world_size())
        work = dist.all_reduce(flat, async_op=True)
        self._flights.append(_Flight(work, flat, params))
        self._open, self._open_bytes = [], 0

    def finish(self) -> None:
        self._launch()
        flights, self._flights = self._flights, []
        stream = torch.cuda.current_stream()
        for flight in flights:
            flight.work.wait()
            offset = 0
            for param in flight.params:
                count = param.numel()
                param.grad.copy_(flight.flat[offset : offset + count].view_as(param.grad))
                offset += count
            flight.flat.record_stream(stream)

    def remove(self) -> None:
        self.finish()
        for handle in self._handles:
            handle.remove()


def main() -> None:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()) for _ in range(6)]
    ).to(device)
    reducer = BucketReducer(model)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.manual_seed(rank + 1)
    for step in range(20):
        for micro in range(2):
            reducer.enabled = micro == 1
            x = torch.randn(64, 1024, device=device)
            model(x).square().mean().backward()
        reducer.finish()
        optim.step()
        optim.zero_grad(set_to_none=True)
    reducer.remove()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
