import numpy as np
import torch

_NUM_SHADOWS = 2


class CpuGpuBuffer:
    """Host view with a stable address, uploaded through rotating pinned shadows."""

    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device):
        self.cpu = torch.zeros(*size, dtype=dtype, device="cpu")
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()
        self._shadows = [torch.zeros_like(self.cpu).pin_memory() for _ in range(_NUM_SHADOWS)]
        self._events = [torch.cuda.Event() for _ in range(_NUM_SHADOWS)]
        self._next = 0

    def copy_to_gpu(self, n: int | None = None) -> torch.Tensor:
        index = self._next
        self._next = (index + 1) % _NUM_SHADOWS
        source = self.cpu if n is None else self.cpu[:n]
        shadow = self._shadows[index] if n is None else self._shadows[index][:n]
        target = self.gpu if n is None else self.gpu[:n]

        self._events[index].synchronize()
        shadow.copy_(source)
        target.copy_(shadow, non_blocking=True)
        self._events[index].record()
        return target


class InputPreparer:
    def __init__(self, max_num_reqs: int, max_blocks: int, device: torch.device):
        self.query_start_loc = CpuGpuBuffer(max_num_reqs + 1, dtype=torch.int32, device=device)
        self.seq_lens = CpuGpuBuffer(max_num_reqs, dtype=torch.int32, device=device)
        self.block_table = CpuGpuBuffer(max_num_reqs, max_blocks, dtype=torch.int32, device=device)

    def prepare(self, num_scheduled: np.ndarray, num_computed: np.ndarray, blocks: np.ndarray):
        n = len(num_scheduled)
        self.query_start_loc.np[0] = 0
        np.cumsum(num_scheduled, out=self.query_start_loc.np[1 : n + 1])
        np.add(num_scheduled, num_computed, out=self.seq_lens.np[:n])
        self.block_table.np[:n] = blocks
        return (
            self.query_start_loc.copy_to_gpu(n + 1),
            self.seq_lens.copy_to_gpu(n),
            self.block_table.copy_to_gpu(n),
        )


class ModelRunner:
    def __init__(self, model, preparer: InputPreparer, device: torch.device, max_num_reqs: int):
        self.model = model
        self.preparer = preparer
        self.last_tokens = torch.zeros(max_num_reqs, dtype=torch.long, device=device)

    @torch.inference_mode()
    def run(self, schedule) -> list[torch.Tensor]:
        outputs = []
        for step in schedule:
            qsl, seq_lens, table = self.preparer.prepare(step.scheduled, step.computed, step.blocks)
            n = len(step.scheduled)
            logits = self.model(self.last_tokens[:n], qsl, seq_lens, table)
            sampled = logits.argmax(dim=-1)
            self.last_tokens[:n] = sampled
            outputs.append(sampled)
        return outputs
