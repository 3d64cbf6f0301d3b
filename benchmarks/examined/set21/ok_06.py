from dataclasses import dataclass
from typing import List

import numpy as np
import torch
import torch.nn as nn


@dataclass
class SpecDecodeMetadata:
    cu_num_draft_tokens: torch.Tensor
    logits_indices: torch.Tensor
    target_logits_indices: torch.Tensor
    bonus_logits_indices: torch.Tensor
    draft_token_ids: torch.Tensor


class ModelRunner:
    """Target model side of speculative decoding."""

    def __init__(self, model: nn.Module, max_tokens: int):
        self.device = torch.device("cuda")
        self.model = model.to(self.device).eval()
        self.input_ids = torch.zeros(max_tokens, dtype=torch.int64, device=self.device)

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).pin_memory().to(self.device, non_blocking=True)

    def _calc_spec_decode_metadata(self, num_draft: np.ndarray) -> SpecDecodeMetadata:
        num_sampled = num_draft + 1
        cu_sampled = np.cumsum(num_sampled)
        cu_draft = np.cumsum(num_draft)
        total = int(cu_sampled[-1])
        logits_indices = np.arange(total, dtype=np.int64)
        bonus = cu_sampled - 1
        mask = np.ones(total, dtype=bool)
        mask[bonus] = False
        target = logits_indices[mask]
        logits_gpu = self._to_device(logits_indices)
        target_gpu = self._to_device(target)
        return SpecDecodeMetadata(
            cu_num_draft_tokens=self._to_device(cu_draft.astype(np.int64)),
            logits_indices=logits_gpu,
            target_logits_indices=target_gpu,
            bonus_logits_indices=self._to_device(bonus.astype(np.int64)),
            draft_token_ids=self.input_ids[logits_gpu][target_gpu + 1],
        )

    @torch.inference_mode()
    def execute_model(self, token_ids: np.ndarray, num_draft: np.ndarray) -> torch.Tensor:
        total = token_ids.shape[0]
        staged = torch.from_numpy(token_ids).pin_memory()
        self.input_ids[:total].copy_(staged, non_blocking=True)
        del staged
        meta = self._calc_spec_decode_metadata(num_draft)
        logits = self.model(self.input_ids[:total])[meta.logits_indices]
        target_ids = logits[meta.target_logits_indices].argmax(dim=-1)
        bonus_ids = logits[meta.bonus_logits_indices].argmax(dim=-1)
        accepted = (target_ids == meta.draft_token_ids).to(torch.int64)
        running = torch.cumsum(accepted, dim=0)
        per_request = running[(meta.cu_num_draft_tokens - 1).clamp(min=0)]
        return torch.stack([per_request, bonus_ids], dim=1)


def serve(steps: int = 256, batch: int = 64) -> List[torch.Tensor]:
    runner = ModelRunner(nn.Sequential(nn.Embedding(32000, 1024), nn.Linear(1024, 32000)), 4096)
    rng = np.random.default_rng(0)
    outputs = []
    for _ in range(steps):
        num_draft = rng.integers(1, 7, size=batch)
        tokens = rng.integers(0, 32000, size=int((num_draft + 1).sum()), dtype=np.int64)
        outputs.append(runner.execute_model(tokens, num_draft))
    return [o.cpu() for o in outputs]
