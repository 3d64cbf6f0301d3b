from typing import List, Optional

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, n: int, dtype: torch.dtype, device: torch.device):
        self.cpu = torch.zeros(n, dtype=dtype, device="cpu", pin_memory=True)
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(n, dtype=dtype, device=device)


def copy_snapshot_to_gpu(buffer: CpuGpuBuffer, n: Optional[int] = None) -> torch.Tensor:
    """Uploads the present content of the buffer; the buffer can be changed right away."""
    n = buffer.cpu.shape[0] if n is None else n
    snapshot = buffer.cpu[:n].clone().pin_memory()
    return buffer.gpu[:n].copy_(snapshot, non_blocking=True)


class EagleProposer:
    def __init__(self, model, num_speculative_tokens: int, max_num_reqs: int, device: torch.device):
        self.model = model
        self.num_speculative_tokens = num_speculative_tokens
        self.query_start_loc = CpuGpuBuffer(max_num_reqs + 1, torch.int32, device)
        self.seq_lens = CpuGpuBuffer(max_num_reqs, torch.int32, device)
        self.arange = np.arange(max_num_reqs + 1, dtype=np.int32)

    @torch.inference_mode()
    def propose(self, target_hidden: torch.Tensor, next_tokens: torch.Tensor,
                num_tokens: np.ndarray, seq_lens: np.ndarray) -> torch.Tensor:
        n = len(num_tokens)
        self.query_start_loc.np[0] = 0
        np.cumsum(num_tokens, dtype=np.int32, out=self.query_start_loc.np[1 : n + 1])
        self.seq_lens.np[:n] = seq_lens
        qsl = copy_snapshot_to_gpu(self.query_start_loc, n + 1)
        lens = copy_snapshot_to_gpu(self.seq_lens, n)
        hidden = self.model(next_tokens, target_hidden, qsl, lens)
        last = (qsl[1:] - 1).long()
        hidden = hidden[last]
        drafts: List[torch.Tensor] = [self.model.lm_head(hidden).argmax(-1)]

        self.query_start_loc.np[: n + 1] = self.arange[: n + 1]
        qsl = copy_snapshot_to_gpu(self.query_start_loc, n + 1)
        for _ in range(self.num_speculative_tokens - 1):
            self.seq_lens.np[:n] += 1
            lens = copy_snapshot_to_gpu(self.seq_lens, n)
            hidden = self.model(drafts[-1], hidden, qsl, lens)
            drafts.append(self.model.lm_head(hidden).argmax(-1))
        return torch.stack(drafts, dim=1)
