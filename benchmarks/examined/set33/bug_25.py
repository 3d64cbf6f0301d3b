import numpy as np
import torch


class PinnedPair:
    def __init__(self, shape, dtype, device):
        self.cpu = torch.zeros(shape, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(shape, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def upload(self, n: int) -> torch.Tensor:
        self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)
        return self.gpu[:n]


class HybridRunner:
    """Decode runner for a model with attention and recurrent layers."""

    def __init__(self, model, state_pool: torch.Tensor, max_reqs=128, max_blocks=512):
        device = state_pool.device
        self.model = model
        self.state_pool = state_pool
        self.tokens = PinnedPair((max_reqs,), torch.int64, device)
        self.block_table = PinnedPair((max_reqs, max_blocks), torch.int32, device)
        self.slots = PinnedPair((max_reqs,), torch.int64, device)
        self.prep_done = torch.cuda.Event()
        self.post_done = torch.cuda.Event()

    def _prepare(self, tokens, blocks, slots):
        n = len(tokens)
        self.prep_done.synchronize()
        self.tokens.np[:n] = tokens
        self.block_table.np[:n].fill(0)
        for row, ids in enumerate(blocks):
            self.block_table.np[row, : len(ids)] = ids
        self.slots.np[:n] = slots
        return n

    @torch.inference_mode()
    def execute(self, tokens, blocks, slots) -> torch.Tensor:
        n = self._prepare(tokens, blocks, slots)
        input_ids = self.tokens.upload(n)
        table = self.block_table.upload(n)
        self.prep_done.record()

        logits, new_state = self.model(input_ids, table)
        next_ids = logits.argmax(dim=-1)
        self._postprocess(new_state, n)
        return next_ids

    def _postprocess(self, new_state: torch.Tensor, n: int) -> None:
        dst = self.slots.upload(n)
        self.state_pool.index_copy_(0, dst, new_state[:n].to(self.state_pool.dtype))
        self.post_done.record()


def run(runner: HybridRunner, schedule) -> list:
    outputs = []
    for tokens, blocks, slots in schedule:
        outputs.append(runner.execute(np.asarray(tokens), blocks, np.asarray(slots)))
    return outputs
