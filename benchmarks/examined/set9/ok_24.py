from dataclasses import dataclass
from typing import Dict, List, Optional

import torch


@dataclass
class ModelRunnerOutput:
    req_ids: List[str]
    sampled_token_ids: List[List[int]]


class AsyncModelRunnerOutput:
    def get_output(self) -> ModelRunnerOutput:
        raise NotImplementedError


class AsyncGPUModelRunnerOutput(AsyncModelRunnerOutput):
    def __init__(
        self,
        model_runner_output: ModelRunnerOutput,
        sampled_token_ids: torch.Tensor,
        invalid_req_indices: List[int],
        async_output_copy_stream: torch.cuda.Stream,
    ):
        self._model_runner_output = model_runner_output
        self._invalid_req_indices = invalid_req_indices
        # Event on the copy stream so we can synchronize the non-blocking copy.
        self.async_copy_ready_event = torch.cuda.Event()
        # Keep a reference to the device tensor to avoid it being
        # deallocated until we finish copying it to the host.
        self._sampled_token_ids = sampled_token_ids
        default_stream = torch.cuda.current_stream()
        with torch.cuda.stream(async_output_copy_stream):
            async_output_copy_stream.wait_stream(default_stream)
            self.sampled_token_ids_cpu = self._sampled_token_ids.to("cpu", non_blocking=True)
            self.async_copy_ready_event.record()

    def get_output(self) -> ModelRunnerOutput:
        """Copy the device tensors to the host and return a ModelRunnerOutput.

        This function blocks until the copy is finished.
        """
        self.async_copy_ready_event.synchronize()
        # Release the device tensor once the copy has completed
        del self._sampled_token_ids
        valid_sampled_token_ids = self.sampled_token_ids_cpu.tolist()
        for i in self._invalid_req_indices:
            valid_sampled_token_ids[i].clear()
        output = self._model_runner_output
        output.sampled_token_ids = valid_sampled_token_ids
        return output


class GPUModelRunner:
    def __init__(self, model, max_num_reqs: int, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.async_output_copy_stream = torch.cuda.Stream()
        self.prev_sampled: Optional[torch.Tensor] = None
        self.prev_req_id_to_index: Dict[str, int] = {}
        self.input_ids = torch.zeros(max_num_reqs, dtype=torch.int64, device=self.device)

    def _prepare_input_ids(self, req_ids: List[str], new_tokens: Dict[str, int]):
        tokens = torch.tensor([new_tokens.get(r, 0) for r in req_ids], dtype=torch.int64, pin_memory=True)
        self.input_ids[: len(req_ids)].copy_(tokens, non_blocking=True)
        common = [(i, self.prev_req_id_to_index[r]) for i, r in enumerate(req_ids) if r in self.prev_req_id_to_index]
        if common:
            dst, src = torch.tensor(common, dtype=torch.int64, pin_memory=True).t().to(self.device, non_blocking=True)
            self.input_ids.scatter_(0, dst, self.prev_sampled[src, 0])

    @torch.inference_mode()
    def execute_model(self, req_ids: List[str], new_tokens: Dict[str, int], finished: List[str]):
        self._prepare_input_ids(req_ids, new_tokens)
        logits = self.model(self.input_ids[: len(req_ids)])
        sampled_token_ids = logits.argmax(dim=-1, keepdim=True)
        self.prev_sampled = sampled_token_ids
        self.prev_req_id_to_index = {r: i for i, r in enumerate(req_ids) if r not in finished}
        return AsyncGPUModelRunnerOutput(
            ModelRunnerOutput(req_ids=list(req_ids), sampled_token_ids=[]),
            sampled_token_ids,
            [i for i, r in enumerate(req_ids) if r in finished],
            self.async_output_copy_stream,
        )
