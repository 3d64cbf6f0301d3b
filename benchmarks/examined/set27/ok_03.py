from collections import deque
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class SamplerOutput:
    token_ids: torch.Tensor
    logprobs: torch.Tensor


def async_copy_to_np(x):
    return x.to("cpu", non_blocking=True).numpy()


class AsyncOutput:
    """Sampled tokens on their way to the host."""

    def __init__(self, req_ids, sampler_output, num_sampled, main_stream, copy_stream):
        self.req_ids = req_ids
        self.sampler_output = sampler_output
        self.num_sampled = num_sampled
        self.copy_event = torch.cuda.Event(blocking=True)
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main_stream)
            self.token_ids_np = async_copy_to_np(sampler_output.token_ids)
            self.logprobs_np = async_copy_to_np(sampler_output.logprobs)
            self.num_sampled_np = async_copy_to_np(num_sampled)
            self.copy_event.record(copy_stream)

    def get_output(self):
        self.copy_event.synchronize()
        out = {}
        for i, rid in enumerate(self.req_ids):
            n = int(self.num_sampled_np[i])
            out[rid] = (self.token_ids_np[i, :n].tolist(), self.logprobs_np[i, :n].tolist())
        return out


class ModelRunner:
    def __init__(self, model, max_reqs, spec_steps, device="cuda"):
        self.model = model
        self.device = device
        self.spec_steps = spec_steps
        self.last_tokens = torch.zeros(max_reqs, dtype=torch.int64, device=device)
        self.main_stream = torch.cuda.current_stream()
        self.output_copy_stream = torch.cuda.Stream()

    def _sample(self, logits, n):
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        values, tokens = logprobs.max(dim=-1)
        accepted = (tokens[:, 1:] == tokens[:, :-1]).cumprod(dim=1).sum(dim=1)
        return SamplerOutput(tokens, values), (accepted + 1).to(torch.int32)

    @torch.no_grad()
    def execute(self, req_ids, slots):
        idx = torch.from_numpy(np.asarray(slots)).to(self.device)
        logits = self.model(self.last_tokens[idx], self.spec_steps + 1)
        output, num_sampled = self._sample(logits, len(req_ids))
        last = output.token_ids.gather(1, (num_sampled.long() - 1).unsqueeze(1)).squeeze(1)
        self.last_tokens[idx] = last
        return AsyncOutput(
            req_ids, output, num_sampled, self.main_stream, self.output_copy_stream
        )


class EngineCore:
    """Keeps one step in flight while the host handles the previous one."""

    def __init__(self, runner, scheduler):
        self.runner = runner
        self.scheduler = scheduler
        self.in_flight = deque()

    def run(self):
        while self.scheduler.has_work() or self.in_flight:
            if self.scheduler.has_work():
                req_ids, slots = self.scheduler.schedule()
                self.in_flight.append(self.runner.execute(req_ids, slots))
            if len(self.in_flight) > 1 or not self.scheduler.has_work():
                output = self.in_flight.popleft()
                self.scheduler.update(output.get_output())
