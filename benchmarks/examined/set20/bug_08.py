"""Model runner input preparation with reused pinned buffers and a batch queue."""
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class ParallelConfig:
    pipeline_parallel_size: int = 1


@dataclass
class EngineConfig:
    parallel: ParallelConfig
    async_scheduling: bool = False
    max_num_seqs: int = 256
    max_num_tokens: int = 8192

    @property
    def max_concurrent_batches(self):
        return 2 if self.async_scheduling else self.parallel.pipeline_parallel_size


class CpuGpuBuffer:
    def __init__(self, n, dtype, device):
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(n, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n):
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class GPUModelRunner:
    def __init__(self, config, model, device):
        self.config = config
        self.model = model
        self.device = device
        self.input_ids = CpuGpuBuffer(config.max_num_tokens, torch.int64, device)
        self.seq_lens = CpuGpuBuffer(config.max_num_seqs, torch.int32, device)
        self.query_start_loc = CpuGpuBuffer(config.max_num_seqs + 1, torch.int32, device)
        self.prepare_inputs_event = None
        if config.async_scheduling:
            self.prepare_inputs_event = torch.cuda.Event()
            self.prepare_inputs_event.record()

    @contextmanager
    def synchronize_input_prep(self):
        if self.prepare_inputs_event is None:
            yield
            return
        self.prepare_inputs_event.synchronize()
        try:
            yield
        finally:
            self.prepare_inputs_event.record()

    def _prepare_inputs(self, sched):
        num_reqs = len(sched.num_tokens)
        total = int(sum(sched.num_tokens))
        self.input_ids.np[:total] = np.concatenate(sched.token_ids)
        self.seq_lens.np[:num_reqs] = sched.seq_lens
        self.query_start_loc.np[0] = 0
        np.cumsum(sched.num_tokens, out=self.query_start_loc.np[1:num_reqs + 1])
        return (
            self.input_ids.copy_to_gpu(total),
            self.seq_lens.copy_to_gpu(num_reqs),
            self.query_start_loc.copy_to_gpu(num_reqs + 1),
        )

    @torch.inference_mode()
    def execute_model(self, sched):
        with self.synchronize_input_prep():
            input_ids, seq_lens, qsl = self._prepare_inputs(sched)
        hidden = self.model(input_ids, seq_lens, qsl)
        sampled = self.model.compute_logits(hidden[qsl[1:].long() - 1]).argmax(dim=-1)
        out = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
        out.copy_(sampled, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return out, done


class EngineCore:
    def __init__(self, config, model, scheduler, device):
        self.runner = GPUModelRunner(config, model, device)
        self.scheduler = scheduler
        self.batch_queue_size = config.max_concurrent_batches
        self.batch_queue = deque()

    def step_with_batch_queue(self):
        if len(self.batch_queue) < self.batch_queue_size and self.scheduler.has_requests():
            sched = self.scheduler.schedule()
            self.batch_queue.appendleft((sched, self.runner.execute_model(sched)))
            if len(self.batch_queue) < self.batch_queue_size:
                return
        sched, (out, done) = self.batch_queue.pop()
        done.synchronize()
        self.scheduler.update_from_output(sched, out.tolist())

    def run(self):
        while self.scheduler.has_requests() or self.batch_queue:
            self.step_with_batch_queue()


def main(model, scheduler):
    config = EngineConfig(ParallelConfig(pipeline_parallel_size=4), async_scheduling=False)
    EngineCore(config, model, scheduler, torch.device("cuda", 0)).run()
