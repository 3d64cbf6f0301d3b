from dataclasses import dataclass
from typing import List

import numpy as np
import torch


@dataclass
class SpecDecodeMetadata:
    draft_token_ids: torch.Tensor
    cu_num_draft_tokens: torch.Tensor
    target_logits_indices: torch.Tensor
    bonus_logits_indices: torch.Tensor
    logits_indices: torch.Tensor


class SpecDecodeInputs:
    def __init__(self, max_tokens: int, device: torch.device):
        self.device = device
        self.arange_np = np.arange(max_tokens, dtype=np.int32)
        self.input_ids = torch.zeros(max_tokens, dtype=torch.int32, device=device)

    def _get_cumsum_and_arange(self, num_tokens: np.ndarray):
        cu = np.cumsum(num_tokens, dtype=np.int32)
        offsets = np.repeat(cu - num_tokens, num_tokens)
        return cu, self.arange_np[: cu[-1]] - offsets

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).pin_memory().to(self.device, non_blocking=True)

    def calc_spec_decode_metadata(self, num_draft_tokens: np.ndarray,
                                  cu_num_scheduled_tokens: np.ndarray) -> SpecDecodeMetadata:
        num_sampled = num_draft_tokens + 1
        cu_sampled, arange = self._get_cumsum_and_arange(num_sampled)
        logits_indices = np.repeat(cu_num_scheduled_tokens - num_sampled, num_sampled) + arange
        bonus_logits_indices = cu_sampled - 1

        cu_draft, arange = self._get_cumsum_and_arange(num_draft_tokens)
        target = np.repeat(cu_sampled - num_sampled, num_draft_tokens) + arange

        cu_draft_gpu = self._to_device(cu_draft)
        logits_gpu = self._to_device(logits_indices)
        target_gpu = self._to_device(target)
        bonus_gpu = self._to_device(bonus_logits_indices)

        draft_token_ids = self.input_ids[logits_gpu.long()]
        draft_token_ids = draft_token_ids[(target_gpu + 1).long()]
        return SpecDecodeMetadata(draft_token_ids, cu_draft_gpu, target_gpu, bonus_gpu, logits_gpu)


class SpecRunner:
    def __init__(self, model, sampler, max_tokens: int, device: torch.device):
        self.inputs = SpecDecodeInputs(max_tokens, device)
        self.model = model
        self.sampler = sampler

    @torch.inference_mode()
    def run(self, steps: List[tuple]) -> List[torch.Tensor]:
        outputs = []
        for tokens, num_draft, cu_scheduled in steps:
            self.inputs.input_ids[: tokens.numel()].copy_(tokens.pin_memory(), non_blocking=True)
            meta = self.inputs.calc_spec_decode_metadata(num_draft, cu_scheduled)
            hidden = self.model(self.inputs.input_ids[: tokens.numel()])
            logits = hidden[meta.logits_indices.long()]
            outputs.append(self.sampler(logits, meta))
        return outputs
