"""Logits processing with pinned, non-blocking index uploads on the forward stream."""
from dataclasses import dataclass

import torch


@dataclass
class Batch:
    extend_lens: list
    logprob_start: list
    want_logprobs: list
    temperatures: list


@dataclass
class AsyncLogprobs:
    values: torch.Tensor
    lens: list
    ready: torch.cuda.Event

    def resolve(self):
        self.ready.synchronize()
        out, offset = [], 0
        for n in self.lens:
            out.append(self.values[offset:offset + n].tolist())
            offset += n
        return out


class LogitsProcessor:
    def __init__(self, lm_head, device):
        self.lm_head = lm_head
        self.device = torch.device(device)
        self.d2h_stream = torch.cuda.Stream(self.device)

    def _upload(self, values, dtype):
        host = torch.tensor(values, dtype=dtype, pin_memory=True)
        return host.to(self.device, non_blocking=True)

    def _pruned(self, batch):
        last, logprob, offset = [], [], 0
        for n, start, want in zip(batch.extend_lens, batch.logprob_start, batch.want_logprobs):
            last.append(offset + n - 1)
            if want:
                logprob.extend(range(offset + start, offset + n - 1))
            offset += n
        return last, logprob

    @torch.inference_mode()
    def forward(self, hidden, input_ids, batch):
        last, logprob = self._pruned(batch)
        sample_idx = self._upload(last, torch.int64)
        temperature = self._upload(batch.temperatures, torch.float32)
        logits = self.lm_head(hidden.index_select(0, sample_idx)).float()
        probs = torch.softmax(logits / temperature[:, None], dim=-1)
        next_ids = torch.multinomial(probs, 1).squeeze(-1)
        return next_ids, self._input_logprobs(hidden, input_ids, logprob, batch)

    def _input_logprobs(self, hidden, input_ids, positions, batch):
        if not positions:
            return None
        idx = self._upload(positions, torch.int64)
        logp = torch.log_softmax(self.lm_head(hidden.index_select(0, idx)).float(), dim=-1)
        target = input_ids.index_select(0, idx + 1)
        values = logp.gather(1, target[:, None]).squeeze(1)
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        ready = torch.cuda.Event()
        self.d2h_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.d2h_stream):
            host.copy_(values, non_blocking=True)
            ready.record(self.d2h_stream)
        values.record_stream(self.d2h_stream)
        lens = [n - 1 - s for n, s, w in zip(batch.extend_lens, batch.logprob_start, batch.want_logprobs) if w]
        return AsyncLogprobs(host, lens, ready)


def prefill_loop(model, processor, batches):
    pending, finished = None, []
    for input_ids, batch in batches:
        ids = input_ids.pin_memory().to(processor.device, non_blocking=True)
        next_ids, logprobs = processor.forward(model(ids), ids, batch)
        if pending is not None:
            finished.append((pending[0].tolist(), pending[1].resolve() if pending[1] else None))
        pending = (next_ids, logprobs)
    if pending is not None:
        finished.append((pending[0].tolist(), pending[1].resolve() if pending[1] else None))
    return finished
