import contextlib
from dataclasses import dataclass
from typing import Optional, Tuple

import torch


@dataclass
class EagleVerifyInput:
    draft_token: torch.Tensor
    positions: torch.Tensor
    custom_mask: torch.Tensor
    retrive_index: torch.Tensor


@dataclass
class ForwardBatch:
    batch_size: int
    input_ids: torch.Tensor
    positions: torch.Tensor
    custom_mask: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor


def build_tree(parents, scores, tokens, seq_lens, num_draft_tokens):
    bs = seq_lens.numel()
    order = torch.topk(scores, num_draft_tokens - 1, dim=-1).indices.sort(dim=-1).values
    draft = torch.gather(tokens, 1, order)
    depth = torch.gather(parents, 1, order).add_(1)
    positions = (seq_lens[:, None] + depth).flatten()
    mask = (depth[:, :, None] >= depth[:, None, :]).flatten()
    retrive = torch.arange(bs * num_draft_tokens, device=draft.device).view(bs, -1)
    return draft.flatten(), positions, mask, retrive


class VerifyGraphRunner:
    def __init__(self, model, max_bs: int, num_draft_tokens: int, device: torch.device):
        n = max_bs * num_draft_tokens
        self.num_draft_tokens = num_draft_tokens
        self.input_ids = torch.zeros(n, dtype=torch.int64, device=device)
        self.positions = torch.zeros(n, dtype=torch.int64, device=device)
        self.custom_mask = torch.zeros(n * num_draft_tokens, dtype=torch.bool, device=device)
        self.out_cache_loc = torch.zeros(n, dtype=torch.int64, device=device)
        self.graphs = {}
        self.outputs = {}
        self.model = model

    def populate_from_forward_batch(self, fb: ForwardBatch) -> None:
        self.input_ids[: fb.input_ids.numel()].copy_(fb.input_ids)
        self.positions[: fb.positions.numel()].copy_(fb.positions)
        self.custom_mask[: fb.custom_mask.numel()].copy_(fb.custom_mask)
        self.out_cache_loc[: fb.out_cache_loc.numel()].copy_(fb.out_cache_loc)

    def replay(self, bs: int) -> torch.Tensor:
        self.graphs[bs].replay()
        return self.outputs[bs][: bs * self.num_draft_tokens]


class EagleWorkerV2:
    def __init__(self, draft_runner, graph_runner: VerifyGraphRunner, num_draft_tokens: int,
                 device: torch.device, enable_overlap_plan_stream: bool = True):
        self.device = device
        self.draft_runner = draft_runner
        self.graph_runner = graph_runner
        self.num_draft_tokens = num_draft_tokens
        self.plan_stream: Optional[torch.cuda.Stream] = (
            torch.cuda.Stream(device) if enable_overlap_plan_stream else None
        )
        self.draft_done = torch.cuda.Event()

    def _plan_stream_ctx(self):
        if self.plan_stream is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(self.plan_stream)

    def draft(self, batch) -> EagleVerifyInput:
        parents, scores, tokens = self.draft_runner.forward(batch)
        draft, pos, mask, retrive = build_tree(
            parents, scores, tokens, batch.seq_lens, self.num_draft_tokens
        )
        self.draft_done.record()
        return EagleVerifyInput(draft, pos, mask, retrive)

    def verify(self, batch, spec: EagleVerifyInput) -> Tuple[torch.Tensor, torch.Tensor]:
        if self.plan_stream is not None:
            self.plan_stream.wait_event(self.draft_done)
        with self._plan_stream_ctx():
            fb = ForwardBatch(
                batch_size=batch.bs,
                input_ids=spec.draft_token,
                positions=spec.positions,
                custom_mask=spec.custom_mask,
                seq_lens=batch.seq_lens,
                out_cache_loc=batch.out_cache_loc,
            )
            self.graph_runner.populate_from_forward_batch(fb)
        if self.plan_stream is not None:
            torch.cuda.current_stream().wait_stream(self.plan_stream)
        logits = self.graph_runner.replay(batch.bs)
        predict = torch.argmax(logits, dim=-1)
        return logits, predict

    def forward_batch_generation(self, batch):
        spec = self.draft(batch)
        return self.verify(batch, spec)
