"""Sampled token ids reach the host through a reused page-locked buffer and an event."""
import torch


class InputBatch:
    def __init__(self, max_num_reqs, max_len, device):
        self.device = device
        self.token_ids_cpu = torch.zeros((max_num_reqs, max_len), dtype=torch.int64, pin_memory=True)
        self.num_tokens = [0] * max_num_reqs
        self.req_ids = []

    def add(self, req_id, prompt):
        row = len(self.req_ids)
        self.req_ids.append(req_id)
        self.token_ids_cpu[row, : len(prompt)] = torch.tensor(prompt)
        self.num_tokens[row] = len(prompt)


class GPUModelRunner:
    """One step: upload the last tokens, run the model, sample, hand ids to the scheduler."""

    def __init__(self, model, max_num_reqs, max_len, device):
        self.model = model
        self.device = device
        self.batch = InputBatch(max_num_reqs, max_len, device)
        self.input_ids = torch.zeros(max_num_reqs, dtype=torch.int64, device=device)
        self.positions = torch.zeros(max_num_reqs, dtype=torch.int64, device=device)
        self.input_ids_cpu = torch.zeros(max_num_reqs, dtype=torch.int64, pin_memory=True)
        self.positions_cpu = torch.zeros(max_num_reqs, dtype=torch.int64, pin_memory=True)
        self.sampled_token_ids_pinned_cpu = torch.empty(
            (max_num_reqs, 1), dtype=torch.int64, pin_memory=True
        )
        self.transfer_event = torch.cuda.Event()
        self.kv_stream = torch.cuda.Stream(device=device)

    def _prepare_inputs(self):
        n = len(self.batch.req_ids)
        for row in range(n):
            pos = self.batch.num_tokens[row] - 1
            self.input_ids_cpu[row] = self.batch.token_ids_cpu[row, pos]
            self.positions_cpu[row] = pos
        self.input_ids[:n].copy_(self.input_ids_cpu[:n], non_blocking=True)
        self.positions[:n].copy_(self.positions_cpu[:n], non_blocking=True)
        return n

    def _to_list(self, sampled_token_ids):
        pinned = self.sampled_token_ids_pinned_cpu[: sampled_token_ids.shape[0]]
        pinned.copy_(sampled_token_ids, non_blocking=True)
        self.transfer_event.record()
        self.transfer_event.synchronize()
        return pinned.tolist()

    @torch.inference_mode()
    def execute_model(self):
        n = self._prepare_inputs()
        logits = self.model(self.input_ids[:n], self.positions[:n])
        sampled = logits.argmax(dim=-1, keepdim=True)
        for row, (token,) in enumerate(self._to_list(sampled)):
            self.batch.token_ids_cpu[row, self.batch.num_tokens[row]] = token
            self.batch.num_tokens[row] += 1

    def save_kv(self, kv_cache, host_cache):
        """Copy the cache out on its own stream; the caller keeps both alive."""
        self.kv_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.kv_stream):
            host_cache.copy_(kv_cache, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self.kv_stream)


def run(model, prompts, steps, kv_cache):
    device = torch.device("cuda", 0)
    runner = GPUModelRunner(model, len(prompts), 4096, device)
    host_cache = torch.empty(kv_cache.shape, dtype=kv_cache.dtype, pin_memory=True)
    for i, prompt in enumerate(prompts):
        runner.batch.add(i, prompt)
    for _ in range(steps):
        runner.execute_model()
    runner.save_kv(kv_cache, host_cache)
    torch.cuda.current_stream(device).synchronize()
    rows = [
        runner.batch.token_ids_cpu[r, : runner.batch.num_tokens[r]].tolist()
        for r in range(len(prompts))
    ]
    return rows, host_cache.numpy()
