import numpy as np
import torch


class CpuGpuBuffer:
    """Buffer to easily copy tensors between CPU and GPU."""

    def __init__(self, *size: int, dtype: torch.dtype, device: torch.device):
        self.cpu = torch.zeros(*size, dtype=dtype, device="cpu", pin_memory=True)
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n: int | None = None) -> torch.Tensor:
        if n is None:
            return self.gpu.copy_(self.cpu, non_blocking=True)
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class NPUModelRunner:
    def __init__(self, model, max_num_reqs: int, device: torch.device):
        self.model = model
        self.device = device
        self.max_num_reqs = max_num_reqs
        self.arange_np = np.arange(max_num_reqs + 1, dtype=np.int32)
        self.query_start_loc = CpuGpuBuffer(max_num_reqs + 1, dtype=torch.int32, device=device)
        self.last_tokens = torch.zeros(max_num_reqs, dtype=torch.long, device=device)

    def _prepare_inputs(self, num_scheduled_tokens: np.ndarray):
        num_reqs = len(num_scheduled_tokens)
        self.query_start_loc.np[0] = 0
        np.cumsum(num_scheduled_tokens, out=self.query_start_loc.np[1 : num_reqs + 1])
        self.query_start_loc.np[num_reqs + 1 :].fill(self.query_start_loc.np[num_reqs])
        self.query_start_loc.copy_to_gpu()

        query_start_loc = self.query_start_loc.gpu[: num_reqs + 1]
        logits_indices = query_start_loc[1:] - 1
        return query_start_loc, logits_indices

    @torch.inference_mode()
    def execute_model(self, scheduler_output) -> torch.Tensor:
        num_reqs = len(scheduler_output.num_scheduled_tokens)
        query_start_loc, logits_indices = self._prepare_inputs(
            scheduler_output.num_scheduled_tokens
        )
        hidden = self.model(self.last_tokens[:num_reqs], query_start_loc)
        logits = self.model.compute_logits(hidden[logits_indices.long()])
        sampled = logits.argmax(dim=-1)
        self.last_tokens[:num_reqs].copy_(sampled)
        return sampled


class AsyncEngineCore:
    def __init__(self, runner: NPUModelRunner, scheduler):
        self.runner = runner
        self.scheduler = scheduler

    def run(self, num_steps: int) -> list[list[int]]:
        outputs = []
        for _ in range(num_steps):
            scheduler_output = self.scheduler.schedule()
            outputs.append(self.runner.execute_model(scheduler_output))
        return [out.tolist() for out in outputs]
