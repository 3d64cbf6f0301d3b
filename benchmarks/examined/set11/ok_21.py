"""Overlap scheduler whose write-after-read barrier is an event recorded as soon as the forward has read its metadata."""
from collections import deque
from typing import Deque, List, Optional

import torch


class DecodeGraphRunner:
    """Replays a captured decode step; everything it needs from shared tables is copied first."""

    def __init__(self, model, max_bs: int, max_len: int, device: torch.device):
        self.model = model
        self.page_table = torch.zeros(max_bs, max_len, dtype=torch.int32, device=device)
        self.seq_lens = torch.zeros(max_bs, dtype=torch.int32, device=device)
        self.input_ids = torch.zeros(max_bs, dtype=torch.int64, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.input_ids, self.page_table, self.seq_lens)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.next_ids = self.model(self.input_ids, self.page_table, self.seq_lens)

    def replay_prepare(self, req_to_token: torch.Tensor, seq_lens: torch.Tensor, rows: torch.Tensor) -> None:
        bs = rows.shape[0]
        self.page_table[:bs].copy_(req_to_token[rows, : self.page_table.shape[1]])
        self.seq_lens[:bs].copy_(seq_lens[rows])

    def replay(self, bs: int) -> torch.Tensor:
        self.graph.replay()
        self.input_ids[:bs].copy_(self.next_ids[:bs])
        return self.next_ids[:bs].clone()


class OverlapScheduler:
    def __init__(self, runner: DecodeGraphRunner, req_to_token: torch.Tensor, seq_lens: torch.Tensor):
        self.runner = runner
        self.req_to_token = req_to_token
        self.seq_lens = seq_lens
        self.schedule_stream = torch.cuda.current_stream()
        self.forward_stream = torch.cuda.Stream()
        self.read_done: Optional[torch.cuda.Event] = None
        self.results: Deque = deque()

    def _barrier(self) -> None:
        if self.read_done is not None:
            self.schedule_stream.wait_event(self.read_done)

    def prepare_for_decode(self, rows: List[int], new_slots: List[int]) -> torch.Tensor:
        self._barrier()
        device = self.req_to_token.device
        rows_t = torch.tensor(rows, pin_memory=True).to(device, non_blocking=True)
        slots = torch.tensor(new_slots, dtype=torch.int32, pin_memory=True).to(device, non_blocking=True)
        self.req_to_token[rows_t, self.seq_lens[rows_t].long()] = slots
        self.seq_lens[rows_t] += 1
        return rows_t

    def run_batch(self, rows: torch.Tensor) -> None:
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            self.runner.replay_prepare(self.req_to_token, self.seq_lens, rows)
            self.read_done = self.forward_stream.record_event()
            next_ids = self.runner.replay(rows.shape[0])
            next_ids_cpu = next_ids.to("cpu", non_blocking=True)
            done = self.forward_stream.record_event()
        self.results.append((rows, next_ids, next_ids_cpu, done))

    def pop_result(self) -> List[int]:
        _rows, _next_ids, next_ids_cpu, done = self.results.popleft()
        done.synchronize()
        return next_ids_cpu.tolist()

    def loop(self, plan) -> None:
        for rows, new_slots in plan:
            self.run_batch(self.prepare_for_decode(rows, new_slots))
            if len(self.results) > 1:
                plan.commit(self.pop_result())
