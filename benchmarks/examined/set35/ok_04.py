"""Sampler that copies tokens on the model stream and beam history on a second one."""
from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional

import torch


@dataclass
class SampleState:
    requests: List[int]
    tokens: torch.Tensor
    history: Optional[torch.Tensor]
    event: torch.cuda.Event


class BeamSampler:
    def __init__(self, max_batch: int, beam: int, max_len: int, device: str = "cuda"):
        self.beam = beam
        self.device = device
        self.history = torch.zeros(max_len, max_batch, beam, dtype=torch.int32, device=device)
        self.side = torch.cuda.Stream()

    @staticmethod
    def _to_host(src: torch.Tensor) -> torch.Tensor:
        dst = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        dst.copy_(src, non_blocking=True)
        return dst

    def sample_async(self, logits: torch.Tensor, requests: List[int], step: int,
                     want_history: bool) -> SampleState:
        main = torch.cuda.current_stream()
        ids = logits.topk(self.beam, dim=-1).indices.to(torch.int32)
        self.history[step, :len(requests)] = ids
        history = None
        if want_history:
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                history = self._to_host(self.history[:step + 1])
        tokens = self._to_host(ids)
        if want_history:
            main.wait_stream(self.side)
        return SampleState(requests, tokens, history, main.record_event())

    def collect(self, state: SampleState, outputs: Dict[int, List[int]]) -> None:
        state.event.synchronize()
        for row, rid in enumerate(state.requests):
            if state.history is None:
                outputs.setdefault(rid, []).append(int(state.tokens[row, 0]))
            else:
                outputs[rid] = state.history[:, row, 0].tolist()


class Executor:
    def __init__(self, model: torch.nn.Module, sampler: BeamSampler, every: int):
        self.model = model
        self.sampler = sampler
        self.every = every
        self.inflight: Deque[SampleState] = deque()

    @torch.inference_mode()
    def run(self, hidden: torch.Tensor, requests: List[int], steps: int) -> Dict[int, List[int]]:
        outputs: Dict[int, List[int]] = {}
        for step in range(steps):
            logits = self.model(hidden)
            snapshot = step % self.every == self.every - 1
            self.inflight.append(self.sampler.sample_async(logits, requests, step, snapshot))
            if len(self.inflight) > 1:
                self.sampler.collect(self.inflight.popleft(), outputs)
        while self.inflight:
            self.sampler.collect(self.inflight.popleft(), outputs)
        return outputs


def main() -> None:
    model = torch.nn.Linear(1024, 32000).cuda().half()
    executor = Executor(model, BeamSampler(max_batch=64, beam=8, max_len=4096), every=8)
    hidden = torch.randn(64, 1024, device="cuda", dtype=torch.half)
    print(len(executor.run(hidden, list(range(64)), steps=40)))


if __name__ == "__main__":
    main()
