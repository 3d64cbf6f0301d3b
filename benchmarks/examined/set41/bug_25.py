"""Decode executor whose sampler results are materialised by a helper thread."""
from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, List, Optional

import torch


@dataclass
class SamplerArgs:
    vocab: int = 32000
    max_batch: int = 128
    top_k: int = 40
    temperature: float = 0.8
    slots: int = 4
    use_worker: bool = True


class SampleSlot:
    """Device-side outputs of one step."""

    def __init__(self, args: SamplerArgs, device: torch.device):
        self.tokens = torch.zeros(args.max_batch, dtype=torch.int64, device=device)
        self.logprobs = torch.zeros(args.max_batch, dtype=torch.float32, device=device)


@dataclass
class StepResult:
    tokens: List[int]
    logprobs: List[float]


def _bind_device(index: int) -> None:
    torch.cuda.set_device(index)


class TopKSampler:
    def __init__(self, args: SamplerArgs, device: torch.device):
        self.args = args
        self.device = device
        self.slots = [SampleSlot(args, device) for _ in range(args.slots)]
        self._worker: Optional[ThreadPoolExecutor] = None
        if args.use_worker:
            self._worker = ThreadPoolExecutor(1, initializer=_bind_device, initargs=(device.index or 0,))

    def sample(self, step: int, logits: torch.Tensor) -> SampleSlot:
        slot = self.slots[step % len(self.slots)]
        b = logits.shape[0]
        vals, idx = (logits / self.args.temperature).topk(self.args.top_k, dim=-1)
        probs = vals.softmax(-1)
        pick = torch.multinomial(probs, 1)
        slot.tokens[:b] = idx.gather(1, pick).squeeze(1)
        slot.logprobs[:b] = probs.gather(1, pick).squeeze(1).log()
        return slot

    def _to_host(self, slot: SampleSlot, b: int) -> StepResult:
        toks = slot.tokens[:b].cpu()
        lps = slot.logprobs[:b].cpu()
        return StepResult(toks.tolist(), lps.tolist())

    def submit(self, fn: Callable, *a) -> Future:
        if self._worker is not None:
            return self._worker.submit(fn, *a)
        f: Future = Future()
        f.set_result(fn(*a))
        return f

    def collect(self, slot: SampleSlot, b: int) -> Future:
        return self.submit(self._to_host, slot, b)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True)
            self._worker = None


class RecurrentLM:
    def __init__(self, args: SamplerArgs, width: int, device: torch.device):
        g = torch.Generator(device).manual_seed(0)
        self.emb = torch.randn(args.vocab, width, device=device, generator=g) * 0.02
        self.w = torch.randn(width, width, device=device, generator=g) / width ** 0.5
        self.state = torch.zeros(args.max_batch, width, device=device)

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        b = tokens.shape[0]
        h = torch.tanh(self.state[:b] @ self.w + self.emb[tokens])
        self.state[:b] = h
        return h @ self.emb.t()


class Executor:
    def __init__(self, args: SamplerArgs, width: int = 1024):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.args = args
        self.exec_stream = torch.cuda.Stream(self.device)
        self.model = RecurrentLM(args, width, self.device)
        self.sampler = TopKSampler(args, self.device)
        self.history: List[List[int]] = []
        torch.cuda.synchronize(self.device)

    def _forward(self, step: int, tokens: torch.Tensor) -> SampleSlot:
        with torch.cuda.stream(self.exec_stream):
            logits = self.model(tokens)
            return self.sampler.sample(step, logits)

    def _account(self, fut: Future) -> None:
        res: StepResult = fut.result()
        self.history.append(res.tokens)

    @torch.inference_mode()
    def generate(self, batch: int, steps: int) -> List[List[int]]:
        with torch.cuda.stream(self.exec_stream):
            tokens = torch.zeros(batch, dtype=torch.int64, device=self.device)
        waiting: Optional[Future] = None
        for step in range(steps):
            slot = self._forward(step, tokens)
            tokens = slot.tokens[:batch]
            fut = self.sampler.collect(slot, batch)
            if waiting is not None:
                self._account(waiting)
            waiting = fut
        if waiting is not None:
            self._account(waiting)
        self.sampler.close()
        return self.history


def main():
    ex = Executor(SamplerArgs())
    out = ex.generate(batch=64, steps=32)
    print(len(out), out[-1][:8])


if __name__ == "__main__":
    main()
