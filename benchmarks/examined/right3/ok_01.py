"""Speculative decoding bookkeeping with a mirrored host counter."""
from typing import Optional

import numpy as np
import torch


class AcceptedTokenTracker:
    def __init__(self, max_num_reqs: int, device: torch.device):
        self.num_accepted_gpu = torch.ones(max_num_reqs, dtype=torch.int64, device=device)
        self.num_accepted_cpu = torch.ones(max_num_reqs, dtype=torch.int64, pin_memory=True)
        self.num_accepted_np = self.num_accepted_cpu.numpy()
        self._event: Optional[torch.cuda.Event] = None

    def update_after_model(self, output_token_ids: torch.Tensor) -> None:
        num_reqs = output_token_ids.shape[0]
        accepted = (output_token_ids != -1).sum(dim=1)
        self.num_accepted_gpu[:num_reqs] = accepted
        self.num_accepted_cpu[:num_reqs].copy_(
            self.num_accepted_gpu[:num_reqs], non_blocking=True
        )
        if self._event is None:
            self._event = torch.cuda.Event()
        self._event.record()

    def host_view(self, num_reqs: int) -> np.ndarray:
        if self._event is not None:
            self._event.synchronize()
        return self.num_accepted_np[:num_reqs]


class MambaMetadataBuilder:
    def __init__(self, tracker: AcceptedTokenTracker, block_size: int):
        self.tracker = tracker
        self.block_size = block_size

    def build(self, num_reqs: int) -> list[int]:
        accepted = self.tracker.host_view(num_reqs)
        return [int(a) % self.block_size for a in accepted]


class ModelRunner:
    def __init__(self, model: torch.nn.Module, max_num_reqs: int, device: torch.device):
        self.model = model.to(device)
        self.tracker = AcceptedTokenTracker(max_num_reqs, device)
        self.builder = MambaMetadataBuilder(self.tracker, block_size=16)

    @torch.inference_mode()
    def execute_model(self, hidden: torch.Tensor, drafts: torch.Tensor):
        num_reqs = drafts.shape[0]
        offsets = self.builder.build(num_reqs)
        logits = self.model(hidden)
        picked = logits.argmax(dim=-1)
        output = torch.where(picked == drafts, picked, torch.full_like(picked, -1))
        self.tracker.update_after_model(output)
        return output, offsets


def main() -> None:
    device = torch.device("cuda")
    runner = ModelRunner(torch.nn.Linear(128, 512), max_num_reqs=32, device=device)
    for _ in range(64):
        hidden = torch.randn(8, 4, 128, device=device)
        drafts = torch.randint(0, 512, (8, 4), device=device)
        _, offsets = runner.execute_model(hidden, drafts)
    print(offsets, runner.tracker.host_view(8).sum())


if __name__ == "__main__":
    main()
