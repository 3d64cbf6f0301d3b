from collections import deque
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class BatchResult:
    next_token_ids: torch.Tensor
    logprobs: torch.Tensor
    hidden_states: Optional[torch.Tensor] = None
    copy_done: Optional[torch.cuda.Event] = None

    def copy_to_cpu(self, forward_stream, copy_stream):
        copy_stream.wait_stream(forward_stream)
        with torch.cuda.stream(copy_stream):
            self.next_token_ids = _async_d2h(self.next_token_ids)
            self.logprobs = _async_d2h(self.logprobs)
            if self.hidden_states is not None:
                self.hidden_states = _async_d2h(self.hidden_states)
            self.copy_done = torch.cuda.Event()
            self.copy_done.record()


def _async_d2h(t):
    host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
    host.copy_(t, non_blocking=True)
    t.record_stream(torch.cuda.current_stream())
    return host


class Runner:
    def __init__(self, vocab, hidden):
        self.embed = nn.Embedding(vocab, hidden).cuda()
        self.layer = nn.GRUCell(hidden, hidden).cuda()
        self.head = nn.Linear(hidden, vocab, bias=False).cuda()

    @torch.inference_mode()
    def forward(self, ids, state):
        state = self.layer(self.embed(ids), state)
        logp = torch.log_softmax(self.head(state), dim=-1)
        best, ids = logp.max(dim=-1)
        return ids, best, state


class Scheduler:
    def __init__(self, runner, batch, hidden):
        self.runner = runner
        self.forward_stream = torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            self.ids = torch.zeros(batch, dtype=torch.long, device="cuda")
            self.state = torch.zeros(batch, hidden, device="cuda")
        self.results = deque()
        self.outputs = [[] for _ in range(batch)]
        self.cumulative = [0.0] * batch

    def run_batch(self, return_hidden):
        with torch.cuda.stream(self.forward_stream):
            ids, logp, state = self.runner.forward(self.ids, self.state)
            self.ids, self.state = ids, state
        result = BatchResult(ids, logp, state if return_hidden else None)
        result.copy_to_cpu(self.forward_stream, self.copy_stream)
        return result

    def process(self, result):
        result.copy_done.synchronize()
        tokens = result.next_token_ids.tolist()
        logps = result.logprobs.tolist()
        for i, (tok, lp) in enumerate(zip(tokens, logps)):
            self.outputs[i].append(tok)
            self.cumulative[i] += lp
        if result.hidden_states is not None:
            return result.hidden_states.abs().max().item()
        return None

    def loop(self, steps):
        for step in range(steps):
            self.results.append(self.run_batch(step % 8 == 0))
            if len(self.results) > 1:
                self.process(self.results.popleft())
        while self.results:
            self.process(self.results.popleft())
        return self.outputs


if __name__ == "__main__":
    print(len(Scheduler(Runner(32000, 1024), 32, 1024).loop(64)[0]))
