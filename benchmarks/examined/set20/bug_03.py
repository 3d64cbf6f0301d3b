"""Draft model runner with CUDA graphs for speculative decoding."""
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class EagleDraftInput:
    topk_p: Optional[torch.Tensor] = None
    topk_index: Optional[torch.Tensor] = None
    hidden_states: Optional[torch.Tensor] = None
    verified_id: Optional[torch.Tensor] = None


@dataclass
class LogitsProcessorOutput:
    next_token_logits: torch.Tensor
    hidden_states: torch.Tensor


class DraftExtendCudaGraphRunner:
    def __init__(self, model, max_bs, hidden_size, vocab_size, device):
        self.model = model
        self.device = device
        self.capture_bs = [b for b in (1, 2, 4, 8, 16, 32) if b <= max_bs]
        self.input_ids = torch.zeros(max_bs, dtype=torch.int64, device=device)
        self.positions = torch.zeros(max_bs, dtype=torch.int64, device=device)
        self.hidden_in = torch.zeros(max_bs, hidden_size, device=device)
        self.graphs = {}
        self.output_buffers = {}
        self.pool = torch.cuda.graph_pool_handle()

    def _forward(self, bs):
        logits, hidden = self.model(
            self.input_ids[:bs], self.positions[:bs], self.hidden_in[:bs]
        )
        return LogitsProcessorOutput(logits, hidden)

    def capture(self):
        stream = torch.cuda.Stream(device=self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for bs in reversed(self.capture_bs):
                self._forward(bs)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        torch.cuda.synchronize(self.device)
        for bs in reversed(self.capture_bs):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                out = self._forward(bs)
            self.graphs[bs] = graph
            self.output_buffers[bs] = out

    def replay(self, input_ids, positions, hidden_states):
        raw_bs = input_ids.shape[0]
        bs = next(b for b in self.capture_bs if b >= raw_bs)
        self.input_ids.zero_()
        self.positions.zero_()
        self.input_ids[:raw_bs].copy_(input_ids)
        self.positions[:raw_bs].copy_(positions)
        self.hidden_in[:raw_bs].copy_(hidden_states)
        self.graphs[bs].replay()
        out = self.output_buffers[bs]
        return LogitsProcessorOutput(
            out.next_token_logits[:raw_bs], out.hidden_states[:raw_bs]
        )


class EagleWorker:
    def __init__(self, model, target, max_bs, hidden_size, vocab_size, device, topk=4):
        self.target = target
        self.topk = topk
        self.runner = DraftExtendCudaGraphRunner(
            model, max_bs, hidden_size, vocab_size, device
        )
        self.runner.capture()

    def capture_for_decode(self, logits_output, draft_input):
        probs = torch.softmax(logits_output.next_token_logits, dim=-1)
        draft_input.topk_p, draft_input.topk_index = torch.topk(probs, self.topk, dim=-1)
        draft_input.hidden_states = logits_output.hidden_states

    def draft_extend(self, batch):
        out = self.runner.replay(
            batch.verified_id, batch.positions, batch.target_hidden
        )
        spec_info = EagleDraftInput(verified_id=batch.verified_id)
        self.capture_for_decode(out, spec_info)
        return spec_info

    def verify(self, spec_info):
        return self.target.verify(
            spec_info.topk_index, spec_info.topk_p, spec_info.hidden_states
        )


def event_loop(worker, scheduler):
    while scheduler.has_work():
        running = scheduler.next_decode_batches()
        for batch in running:
            batch.spec_info = worker.draft_extend(batch)
        for batch in running:
            batch.accepted = worker.verify(batch.spec_info)
        scheduler.finish(running)
