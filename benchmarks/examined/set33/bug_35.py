from typing import Callable, List

import torch


class ExchangeBuffers:
    """One buffer per device, readable by the others through peer access."""

    def __init__(self, shape, devices: List[torch.device], dtype=torch.bfloat16):
        self.devices = devices
        self.slots = [torch.empty(shape, device=d, dtype=dtype) for d in devices]
        self.landing = [torch.empty(shape, device=devices[0], dtype=dtype) for _ in devices]


class PipelinedGather:
    """Fetches shards one by one and feeds each to a consumer, on two streams."""

    def __init__(self, buffers: ExchangeBuffers):
        self.buffers = buffers
        self.device = buffers.devices[0]
        self.backend = torch.cuda.Stream(self.device)

    def run(self, shard: torch.Tensor, consume: Callable[[torch.Tensor, int], None]) -> None:
        current = torch.cuda.current_stream(self.device)
        self.backend.wait_stream(current)
        for slot in self.buffers.slots:
            slot.copy_(shard, non_blocking=True)
        for step, slot in enumerate(self.buffers.slots):
            landing = self.buffers.landing[step]
            if step % 2 == 0:
                with torch.cuda.stream(self.backend):
                    landing.copy_(slot, non_blocking=True)
                    consume(landing, step)
            else:
                landing.copy_(slot, non_blocking=True)
                consume(landing, step)
        current.wait_stream(self.backend)


class GatheredMatmul(torch.nn.Module):
    def __init__(self, rows: int, in_dim: int, out_dim: int, devices: List[torch.device]):
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.randn(in_dim, out_dim, device=devices[0], dtype=torch.bfloat16) * 0.02,
            requires_grad=False,
        )
        self.out = torch.empty(
            len(devices), rows, out_dim, device=devices[0], dtype=torch.bfloat16
        )
        self.gather = PipelinedGather(ExchangeBuffers((rows, in_dim), devices))

    def _consume(self, block: torch.Tensor, step: int) -> None:
        torch.mm(block, self.weight, out=self.out[step])

    @torch.no_grad()
    def forward(self, shard: torch.Tensor) -> torch.Tensor:
        self.gather.run(shard, self._consume)
        return self.out


def main():
    count = max(torch.cuda.device_count(), 1)
    devices = [torch.device("cuda", i % count) for i in range(4)]
    layer = GatheredMatmul(2048, 4096, 4096, devices)
    for it in range(8):
        shard = torch.full((2048, 4096), float(it), device=devices[0], dtype=torch.bfloat16)
        out = layer(shard)
    print(out.float().sum().item())


if __name__ == "__main__":
    main()
