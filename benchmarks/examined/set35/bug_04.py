"""Sampler with asynchronous host copies of tokens, logprobs and beam history."""
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, Optional

import torch


@dataclass
class HostState:
    tokens: torch.Tensor
    logprobs: torch.Tensor
    history: Optional[torch.Tensor] = None


@dataclass
class SampleState:
    requests: List[int]
    host: HostState
    sampler_event: torch.cuda.Event


class BeamSampler:
    def __init__(self, max_batch: int, beam: int, max_len: int, device: str = "cuda"):
        self.beam = beam
        self.device = device
        self.history = torch.zeros(max_batch, beam, max_len, dtype=torch.int32, device=device)
        self.d2h_side_stream = torch.cuda.Stream()

    def _copy_to_host(self, src: torch.Tensor) -> torch.Tensor:
        dst = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        dst.copy_(src, non_blocking=True)
        return dst

    def _history_to_host(self, rows: torch.Tensor, length: int) -> torch.Tensor:
        """Large copy, kept away from the stream that runs the next forward."""
        snapshot = self.history.index_select(0, rows)[:, :, :length].contiguous()
        side = self.d2h_side_stream
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host = self._copy_to_host(snapshot)
        snapshot.record_stream(side)
        return host

    def sample_async(self, logits: torch.Tensor, requests: List[int], step: int,
                     finished: bool) -> SampleState:
        logp = torch.log_softmax(logits.float(), dim=-1)
        values, ids = logp.topk(self.beam, dim=-1)
        rows = torch.tensor(requests, device=self.device)
        self.history[rows, :, step] = ids.to(torch.int32)
        host = HostState(tokens=self._copy_to_host(ids.to(torch.int32)),
                         logprobs=self._copy_to_host(values))
        if finished:
            host.history = self._history_to_host(rows, step + 1)
        event = torch.cuda.Event()
        event.record()
        return SampleState(requests, host, event)

    def update_requests(self, state: SampleState, outputs: dict) -> None:
        state.sampler_event.synchronize()
        tokens = state.host.tokens.tolist()
        for rid, beams in zip(state.requests, tokens):
            outputs.setdefault(rid, []).append(beams[0])
        if state.host.history is not None:
            best = state.host.logprobs.argmax(dim=-1)
            for i, rid in enumerate(state.requests):
                outputs[rid] = state.host.history[i, int(best[i])].tolist()


class Executor:
    def __init__(self, model: torch.nn.Module, sampler: BeamSampler):
        self.model = model
        self.sampler = sampler
        self.inflight: Deque[SampleState] = deque()

    @torch.inference_mode()
    def run(self, hidden: torch.Tensor, requests: List[int], steps: int) -> dict:
        outputs: dict = {}
        for step in range(steps):
            logits = self.model(hidden)
            last = step == steps - 1
            self.inflight.append(self.sampler.sample_async(logits, requests, step, last))
            if len(self.inflight) > 1:
                self.sampler.update_requests(self.inflight.popleft(), outputs)
        while self.inflight:
            self.sampler.update_requests(self.inflight.popleft(), outputs)
        return outputs


def main() -> None:
    model = torch.nn.Linear(1024, 32000).cuda().half()
    executor = Executor(model, BeamSampler(max_batch=64, beam=8, max_len=4096))
    hidden = torch.randn(64, 1024, device="cuda", dtype=torch.half)
    print(len(executor.run(hidden, list(range(64)), steps=32)))


if __name__ == "__main__":
    main()
