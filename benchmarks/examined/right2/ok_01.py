from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@contextmanager
def stream_scope(to_stream: torch.cuda.Stream, from_stream: torch.cuda.Stream):
    """Cheap variant of torch.cuda.stream that skips the device lookup."""
    try:
        torch.cuda.set_stream(to_stream)
        yield
    finally:
        torch.cuda.set_stream(from_stream)


def async_copy_to_np(x: torch.Tensor) -> np.ndarray:
    return x.to("cpu", non_blocking=True).numpy()


@dataclass
class SamplerOutput:
    sampled_token_ids: torch.Tensor
    logprobs: torch.Tensor | None
    num_sampled: torch.Tensor


class AsyncOutput:
    """Result of one engine step whose host copies are still on the way."""

    def __init__(self, req_ids, sampler_output, copy_stream):
        self.req_ids = req_ids
        self.sampler_output = sampler_output
        self.copy_event = torch.cuda.Event()

        main_stream = torch.cuda.current_stream()
        with stream_scope(copy_stream, main_stream):
            copy_stream.wait_stream(main_stream)
            self.token_ids = async_copy_to_np(sampler_output.sampled_token_ids)
            self.num_sampled = async_copy_to_np(sampler_output.num_sampled)
            self.logprobs = None
            if sampler_output.logprobs is not None:
                self.logprobs = async_copy_to_np(sampler_output.logprobs)
            self.copy_event.record(copy_stream)

    def get_output(self) -> dict[str, list[int]]:
        self.copy_event.synchronize()
        result = {}
        for i, req_id in enumerate(self.req_ids):
            n = int(self.num_sampled[i])
            result[req_id] = self.token_ids[i, :n].tolist()
        return result


class Runner:
    def __init__(self, model: nn.Module, device: torch.device):
        self.model = model
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def execute(self, req_ids, token_ids: torch.Tensor) -> AsyncOutput:
        hidden = self.model(token_ids.to(self.device))
        logprobs = torch.log_softmax(hidden[:, -1], dim=-1)
        top = logprobs.argmax(dim=-1, keepdim=True)
        count = torch.ones(len(req_ids), dtype=torch.int32, device=self.device)
        out = SamplerOutput(top, logprobs.gather(1, top), count)
        return AsyncOutput(req_ids, out, self.copy_stream)


def engine_loop(runner: Runner, batches):
    """Yield the results of a step while the next one is queued."""
    pending = None
    for req_ids, token_ids in batches:
        current = runner.execute(req_ids, token_ids)
        if pending is not None:
            yield pending.get_output()
        pending = current
    if pending is not None:
        yield pending.get_output()
