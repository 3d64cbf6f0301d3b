"""Prefill on one GPU, decode on another, KV handed over in landing slots."""
from typing import Optional

import torch


class KVMigrator:
    def __init__(self, src: torch.device, dst: torch.device, slots: int, shape: tuple):
        self.src, self.dst = src, dst
        self.out_stream = torch.cuda.Stream(src)
        self.in_stream = torch.cuda.Stream(dst)
        self.landing = [torch.empty(shape, dtype=torch.float16, device=dst) for _ in range(slots)]
        self.arrived: list[Optional[torch.cuda.Event]] = [None] * slots
        self.released: list[Optional[torch.cuda.Event]] = [None] * slots
        self.out_stream.wait_stream(torch.cuda.current_stream(dst))
        self.in_stream.wait_stream(torch.cuda.current_stream(dst))

    def push(self, slot: int, kv: torch.Tensor) -> None:
        self.out_stream.wait_stream(torch.cuda.current_stream(self.src))
        released = self.released[slot]
        if released is not None:
            self.out_stream.wait_event(released)
            self.in_stream.wait_event(released)
        with torch.cuda.stream(self.out_stream), torch.cuda.stream(self.in_stream):
            self.landing[slot].copy_(kv, non_blocking=True)
        kv.record_stream(self.out_stream)
        self.in_stream.wait_stream(self.out_stream)
        self.arrived[slot] = self.in_stream.record_event()

    def pull(self, slot: int) -> torch.Tensor:
        torch.cuda.current_stream(self.dst).wait_event(self.arrived[slot])
        return self.landing[slot]

    def release(self, slot: int) -> None:
        self.released[slot] = torch.cuda.current_stream(self.dst).record_event()


class Prefill(torch.nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.kv = torch.nn.Linear(dim, 2 * dim)

    def forward(self, x):
        return torch.stack(self.kv(x).chunk(2, dim=-1))


class Decode(torch.nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.q = torch.nn.Linear(dim, dim)

    def forward(self, x, kv):
        att = (self.q(x) @ kv[0].transpose(-1, -2) / x.shape[-1] ** 0.5).softmax(-1)
        return att @ kv[1]


@torch.inference_mode()
def main(slots: int = 3):
    src, dst = torch.device("cuda", 0), torch.device("cuda", 1)
    dim, ctx = 256, 1024
    prefill, decode = Prefill(dim).half().to(src), Decode(dim).half().to(dst)
    migrator = KVMigrator(src, dst, slots, (2, ctx, dim))
    answers = []
    for i in range(24):
        slot = i % slots
        prompt = torch.randn(ctx, dim, dtype=torch.float16, device=src)
        migrator.push(slot, prefill(prompt))
        x = torch.randn(1, dim, dtype=torch.float16, device=dst)
        kv = migrator.pull(slot)
        for _ in range(8):
            x = decode(x, kv)
        migrator.release(slot)
        answers.append(x)
    print(torch.cat(answers).float().norm(dim=-1).tolist())


if __name__ == "__main__":
    main()
