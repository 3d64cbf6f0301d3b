from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass
class SamplerOutput:
    req_ids: list[str]
    token_ids: torch.Tensor
    logprobs: torch.Tensor | None = None


class AsyncOutput:
    """Holds a step's sampled tokens while they travel to the host."""

    def __init__(self, output: SamplerOutput, copy_stream: torch.cuda.Stream) -> None:
        self._req_ids = output.req_ids
        self._event = torch.cuda.Event()
        self._device_tensors: list[torch.Tensor] = [output.token_ids]
        if output.logprobs is not None:
            self._device_tensors.append(output.logprobs)

        main = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main)
            self._host_tensors = [t.to("cpu", non_blocking=True) for t in self._device_tensors]
            self._event.record(copy_stream)

    def get_output(self) -> dict[str, list[int]]:
        self._event.synchronize()
        self._device_tensors.clear()
        tokens = self._host_tensors[0].tolist()
        return {rid: row for rid, row in zip(self._req_ids, tokens)}


@dataclass
class ModelRunner:
    model: torch.nn.Module
    device: torch.device
    max_requests: int = 64
    copy_stream: torch.cuda.Stream = field(init=False)
    last_tokens: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.copy_stream = torch.cuda.Stream(self.device)
        self.last_tokens = torch.zeros(self.max_requests, 1, dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def execute(self, req_ids: list[str]) -> AsyncOutput:
        n = len(req_ids)
        logits = self.model(self.last_tokens[:n, 0])
        sampled = logits.argmax(dim=-1, keepdim=True)
        self.last_tokens[:n].copy_(sampled)
        probs = torch.log_softmax(logits, dim=-1).gather(1, sampled)
        return AsyncOutput(SamplerOutput(req_ids, sampled, probs), self.copy_stream)


def serve(runner: ModelRunner, req_ids: list[str], steps: int) -> dict[str, list[int]]:
    history: dict[str, list[int]] = {rid: [] for rid in req_ids}
    inflight: AsyncOutput | None = None
    for _ in range(steps):
        current = runner.execute(req_ids)
        if inflight is not None:
            for rid, toks in inflight.get_output().items():
                history[rid].extend(toks)
        inflight = current
    if inflight is not None:
        for rid, toks in inflight.get_output().items():
            history[rid].extend(toks)
    return history


if __name__ == "__main__":
    dev = torch.device("cuda", 0)
    net = torch.nn.Sequential(torch.nn.Embedding(512, 64), torch.nn.Linear(64, 512)).to(dev)
    print(serve(ModelRunner(net, dev), ["a", "b", "c"], steps=16))
