"""Overlap scheduler relay buffers (future map) with prefill/decode disaggregation."""
from collections import deque
from dataclasses import dataclass
from typing import List

import torch


@dataclass
class RelayInfo:
    rows: torch.Tensor
    token_ids: torch.Tensor
    seq_lens: torch.Tensor


class FutureMap:
    """Device rows, one per slot of the request pool, carrying state from one step to the next."""

    def __init__(self, pool_size: int, hidden_size: int, device: torch.device):
        self.token_ids = torch.zeros(pool_size, dtype=torch.int64, device=device)
        self.seq_lens = torch.zeros(pool_size, dtype=torch.int64, device=device)
        self.draft_hidden = torch.zeros(pool_size, hidden_size, dtype=torch.bfloat16, device=device)

    def publish(self, info: RelayInfo) -> None:
        self.token_ids[info.rows] = info.token_ids
        self.seq_lens[info.rows] = info.seq_lens

    def stash(self, rows: torch.Tensor, hidden: torch.Tensor) -> None:
        self.draft_hidden[rows] = hidden

    def resolve(self, rows: torch.Tensor):
        return self.token_ids[rows], self.seq_lens[rows], self.draft_hidden[rows]


class DisaggDecodeScheduler:
    def __init__(self, worker, future_map: FutureMap, pool_size: int):
        self.worker = worker
        self.future_map = future_map
        self.device = future_map.token_ids.device
        self.schedule_stream = torch.cuda.current_stream()
        self.forward_stream = torch.cuda.Stream()
        self.free_rows = deque(range(pool_size))
        self.running: List = []
        self.inflight: deque = deque()

    def process_prebuilt(self, transferred_reqs: List) -> None:
        """Seed the rows of requests whose prefill ran on another instance."""
        if not transferred_reqs:
            return
        for req in transferred_reqs:
            req.pool_row = self.free_rows.popleft()
        info = RelayInfo(
            rows=torch.tensor([r.pool_row for r in transferred_reqs], device=self.device),
            token_ids=torch.tensor([r.output_ids[-1] for r in transferred_reqs], device=self.device),
            seq_lens=torch.tensor([r.seq_len for r in transferred_reqs], device=self.device),
        )
        self.future_map.publish(info)
        self.running.extend(transferred_reqs)

    def run_batch(self, reqs: List):
        rows = torch.tensor([r.pool_row for r in reqs], device=self.device)
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            token_ids, seq_lens, hidden = self.future_map.resolve(rows)
            next_ids, hidden = self.worker.draft_and_verify(token_ids, seq_lens, hidden, rows)
            self.future_map.publish(RelayInfo(rows, next_ids, seq_lens + 1))
            self.future_map.stash(rows, hidden)
            next_ids_cpu = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
            next_ids_cpu.copy_(next_ids, non_blocking=True)
            done = self.forward_stream.record_event()
        return reqs, (rows, next_ids), next_ids_cpu, done

    def process_batch_result(self, result) -> None:
        reqs, _keep, next_ids_cpu, done = result
        done.synchronize()
        for req, token in zip(reqs, next_ids_cpu.tolist()):
            req.output_ids.append(token)
            if token == self.worker.eos_id and req in self.running:
                self.running.remove(req)
                self.free_rows.append(req.pool_row)

    def event_loop_overlap_disagg_decode(self):
        while True:
            self.process_prebuilt(self.worker.poll_transferred(limit=len(self.free_rows)))
            if self.running:
                self.inflight.append(self.run_batch(list(self.running)))
            if len(self.inflight) > 1 or (self.inflight and not self.running):
                self.process_batch_result(self.inflight.popleft())
