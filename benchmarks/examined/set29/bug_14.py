"""Split-vocabulary softmax and sampling for several decode lanes."""
from __future__ import annotations

import torch
import triton
import triton.language as tl

_cache_buf: dict[tuple[str, torch.device], torch.Tensor] = {}


def get_cache_buf(name: str, numel: int, device: torch.device) -> torch.Tensor:
    key = (name, device)
    buf = _cache_buf.get(key)
    if buf is None or buf.numel() < numel:
        buf = torch.empty(numel, dtype=torch.float32, device=device)
        _cache_buf[key] = buf
    return buf


@triton.jit
def _partial_kernel(logits_ptr, partial_ptr, vocab, splits, stride, temperature,
                    BLOCK: tl.constexpr):
    row = tl.program_id(0)
    split = tl.program_id(1)
    offs = split * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * stride + offs, mask=offs < vocab, other=float("-inf"))
    x = x / temperature
    m = tl.max(x, axis=0)
    d = tl.sum(tl.where(offs < vocab, tl.exp(x - m), 0.0), axis=0)
    base = partial_ptr + (row * splits + split) * 2
    tl.store(base, m)
    tl.store(base + 1, d)


@triton.jit
def _finish_kernel(logits_ptr, partial_ptr, out_ptr, vocab, splits, stride, temperature,
                   BLOCK: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    split = tl.program_id(1)
    s = tl.arange(0, SPLITS)
    base = partial_ptr + row * splits * 2
    ms = tl.load(base + s * 2, mask=s < splits, other=float("-inf"))
    ds = tl.load(base + s * 2 + 1, mask=s < splits, other=0.0)
    m = tl.max(ms, axis=0)
    d = tl.sum(ds * tl.exp(ms - m), axis=0)
    offs = split * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * stride + offs, mask=offs < vocab, other=float("-inf"))
    tl.store(out_ptr + row * stride + offs, tl.exp(x / temperature - m) / d, mask=offs < vocab)


def softmax(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    batch, vocab = logits.shape
    block = 4096
    splits = triton.cdiv(vocab, block)
    partial = get_cache_buf("softmax_workspace", batch * splits * 2, logits.device)
    out = torch.empty_like(logits)
    grid = (batch, splits)
    _partial_kernel[grid](logits, partial, vocab, splits, logits.stride(0), temperature, BLOCK=block)
    _finish_kernel[grid](
        logits, partial, out, vocab, splits, logits.stride(0), temperature,
        BLOCK=block, SPLITS=triton.next_power_of_2(splits),
    )
    return out


class DecodeLane:
    """One independent group of requests with a stream of its own."""

    def __init__(self, batch: int, vocab: int, dim: int, temperature: float) -> None:
        self.stream = torch.cuda.Stream()
        self.temperature = temperature
        self.hidden = torch.randn(batch, dim, device="cuda")
        self.head = torch.randn(dim, vocab, device="cuda") * dim ** -0.5
        self.tokens = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())

    def step(self) -> None:
        with torch.cuda.stream(self.stream):
            logits = self.hidden @ self.head
            probs = softmax(logits, self.temperature)
            self.tokens.copy_(torch.multinomial(probs, 1).squeeze(1))
            self.hidden.mul_(0.9).add_(self.head[:, self.tokens].T, alpha=0.1)


def run(lanes: list[DecodeLane], steps: int) -> list[list[int]]:
    for _ in range(steps):
        for lane in lanes:
            lane.step()
    torch.cuda.synchronize()
    return [lane.tokens.tolist() for lane in lanes]


if __name__ == "__main__":
    print(run([DecodeLane(32, 128000, 1024, 0.7), DecodeLane(32, 128000, 1024, 1.1)], 64))
