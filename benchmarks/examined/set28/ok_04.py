from contextlib import contextmanager

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, n, dtype):
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(n, dtype=dtype, device="cuda")
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n):
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class GPUModelRunner:
    def __init__(self, model, max_tokens, max_reqs):
        self.model = model
        self.input_ids = CpuGpuBuffer(max_tokens, torch.int32)
        self.positions = CpuGpuBuffer(max_tokens, torch.int64)
        self.query_start_loc = CpuGpuBuffer(max_reqs + 1, torch.int32)
        self.seq_lens = CpuGpuBuffer(max_reqs, torch.int32)
        self.prepare_inputs_event = torch.cuda.Event()
        self.prepare_inputs_event.record()
        self.output_copy_stream = torch.cuda.Stream()

    @contextmanager
    def synchronize_input_prep(self):
        self.prepare_inputs_event.synchronize()
        try:
            yield
        finally:
            self.prepare_inputs_event.record()

    def _prepare_inputs(self, reqs):
        total, start = 0, 0
        self.query_start_loc.np[0] = 0
        for i, req in enumerate(reqs):
            n = req["num_scheduled"]
            self.input_ids.np[start : start + n] = req["tokens"][req["computed"] : req["computed"] + n]
            self.positions.np[start : start + n] = np.arange(req["computed"], req["computed"] + n)
            self.seq_lens.np[i] = req["computed"] + n
            start += n
            self.query_start_loc.np[i + 1] = start
            total += n
        self.input_ids.copy_to_gpu(total)
        self.positions.copy_to_gpu(total)
        self.query_start_loc.copy_to_gpu(len(reqs) + 1)
        self.seq_lens.copy_to_gpu(len(reqs))
        return total

    @torch.inference_mode()
    def execute_model(self, reqs):
        with self.synchronize_input_prep():
            total = self._prepare_inputs(reqs)
        logits = self.model(
            self.input_ids.gpu[:total], self.positions.gpu[:total], self.query_start_loc.gpu[: len(reqs) + 1]
        )
        sampled = logits.argmax(dim=-1)
        return AsyncOutput(sampled, self.output_copy_stream)

    @torch.inference_mode()
    def dummy_run(self, num_tokens):
        with self.synchronize_input_prep():
            self.input_ids.np[:num_tokens] = 0
            self.positions.np[:num_tokens] = 0
            self.query_start_loc.np[0], self.query_start_loc.np[1] = 0, num_tokens
            self.input_ids.copy_to_gpu(num_tokens)
            self.positions.copy_to_gpu(num_tokens)
            self.query_start_loc.copy_to_gpu(2)
        self.model(self.input_ids.gpu[:num_tokens], self.positions.gpu[:num_tokens], self.query_start_loc.gpu[:2])


class AsyncOutput:
    def __init__(self, sampled, copy_stream):
        self.sampled = sampled
        self.event = torch.cuda.Event()
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            self.host = sampled.to("cpu", non_blocking=True)
            self.event.record(copy_stream)

    def get_output(self):
        self.event.synchronize()
        self.sampled = None
        return self.host.tolist()


def engine_loop(runner, scheduler):
    in_flight = None
    while scheduler.running():
        reqs = scheduler.next_batch()
        if reqs:
            out = runner.execute_model(reqs)
        else:
            runner.dummy_run(1)
            out = None
        if in_flight is not None:
            scheduler.update(in_flight.get_output())
        in_flight = out
    if in_flight is not None:
        scheduler.update(in_flight.get_output())
