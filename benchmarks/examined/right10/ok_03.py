"""KV block swapping for a paged cache: evicted blocks go to pinned memory and may come back."""
from __future__ import annotations

import torch


class SwapSpace:
    def __init__(self, num_gpu: int, num_cpu: int, block_shape: tuple[int, ...], dtype=torch.float16):
        self.gpu = torch.zeros((num_gpu, *block_shape), dtype=dtype, device="cuda")
        self.cpu = torch.zeros((num_cpu, *block_shape), dtype=dtype, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.free_cpu = list(range(num_cpu))
        self.out_events: dict[int, torch.cuda.Event] = {}
        self.in_events: dict[int, torch.cuda.Event] = {}

    def swap_out(self, blocks: list[int]) -> dict[int, int]:
        mapping = {}
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for g in blocks:
                c = self.free_cpu.pop()
                self.cpu[c].copy_(self.gpu[g], non_blocking=True)
                ev = torch.cuda.Event()
                ev.record(self.stream)
                self.out_events[g] = ev
                mapping[g] = c
        return mapping

    def swap_in(self, mapping: dict[int, int]) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for c, g in mapping.items():
                self.gpu[g].copy_(self.cpu[c], non_blocking=True)
                self.in_events[g] = self.stream.record_event()
                self.free_cpu.append(c)

    def before_use(self, blocks: list[int]) -> None:
        current = torch.cuda.current_stream()
        for g in blocks:
            for table in (self.out_events, self.in_events):
                ev = table.pop(g, None)
                if ev is not None:
                    current.wait_event(ev)


class Attention(torch.nn.Module):
    def __init__(self, space: SwapSpace, dim: int):
        super().__init__()
        self.space = space
        self.proj = torch.nn.Linear(dim, dim, bias=False).half().cuda()

    def forward(self, x: torch.Tensor, table: list[int], write_to: int) -> torch.Tensor:
        self.space.before_use([*table, write_to])
        kv = self.proj(x)
        self.space.gpu[write_to].copy_(kv)
        keys = self.space.gpu[table].flatten(0, 1)
        scores = torch.softmax(kv @ keys.T, dim=-1)
        return scores @ keys


def serve():
    dim, block = 128, 16
    space = SwapSpace(64, 256, (block, dim))
    layer = Attention(space, dim)
    x = torch.randn(block, dim, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        for step in range(100):
            hot = [(step + k) % 32 for k in range(4)]
            out = layer(x, hot, 32 + step % 8)
            if step % 10 == 9:
                gone = space.swap_out([40, 41, 42])
                out = out + layer(x, hot, 40)
                space.swap_in({c: 44 + i for i, c in enumerate(gone.values())})
                x = layer(out, [44, 45, 46], 41)
    print(float(x.float().abs().mean()))


if __name__ == "__main__":
    serve()
