from dataclasses import dataclass, field
from typing import Iterator, List, Optional

import numpy as np
import torch


@dataclass
class AttentionMetadata:
    kv_indptr: torch.Tensor
    request_indices: torch.Tensor
    tile_indices: torch.Tensor
    num_tiles: int


@dataclass
class Batch:
    input_ids: torch.Tensor
    out_loc: torch.Tensor
    seq_lens: np.ndarray
    attn_metadata: Optional[AttentionMetadata] = None


class DecodePlanner:
    """Splits the KV of every request into tiles; the plan lives in an int workspace."""

    def __init__(self, workspace_elems: int, tile: int, device: torch.device):
        self.tile = tile
        self._int_workspace_buffer = torch.empty(workspace_elems, dtype=torch.int32, device=device)
        self._pin_memory_int_workspace_buffer = torch.empty(
            workspace_elems, dtype=torch.int32, device="cpu", pin_memory=True
        )
        self._pin_np = self._pin_memory_int_workspace_buffer.numpy()

    def plan(self, seq_lens: np.ndarray) -> AttentionMetadata:
        n = len(seq_lens)
        tiles = -(-seq_lens // self.tile)
        total = int(tiles.sum())
        buf = self._pin_np
        buf[0] = 0
        np.cumsum(seq_lens, dtype=np.int32, out=buf[1 : n + 1])
        buf[n + 1 : n + 1 + total] = np.repeat(np.arange(n, dtype=np.int32), tiles)
        off = n + 1 + total
        buf[off : off + total] = np.concatenate([np.arange(t, dtype=np.int32) for t in tiles])
        end = off + total
        dev = self._int_workspace_buffer
        dev[:end].copy_(self._pin_memory_int_workspace_buffer[:end], non_blocking=True)
        return AttentionMetadata(dev[: n + 1], dev[n + 1 : off], dev[off:end], total)


class FIBackend:
    def __init__(self, device: torch.device, max_tiles: int = 1 << 20):
        self.planner = DecodePlanner(max_tiles, tile=256, device=device)

    def prepare_metadata(self, batch: Batch) -> None:
        batch.attn_metadata = self.planner.plan(batch.seq_lens)


@dataclass
class ForwardOutput:
    batch: Batch
    next_tokens_gpu: torch.Tensor
    next_tokens_cpu: torch.Tensor
    copy_done_event: torch.cuda.Event


class Engine:
    def __init__(self, model, backend: FIBackend, device: torch.device):
        self.model = model
        self.backend = backend
        self.stream = torch.cuda.Stream(device)

    def forward_batch(self, batch: Batch) -> ForwardOutput:
        with torch.cuda.stream(self.stream):
            self.backend.prepare_metadata(batch)
            logits = self.model.forward(batch)
            tokens = logits.argmax(dim=-1).to(torch.int32)
            tokens_cpu = tokens.to("cpu", non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.stream)
        return ForwardOutput(batch, tokens, tokens_cpu, event)


class Scheduler:
    def __init__(self, engine: Engine, batches: Iterator[Batch]):
        self.engine = engine
        self.batches = batches
        self.results: List[List[int]] = []

    def _process_last_data(self, last: Optional[ForwardOutput]) -> None:
        if last is None:
            return
        last.copy_done_event.synchronize()
        self.results.append(last.next_tokens_cpu.tolist())

    def overlap_loop(self) -> None:
        last: Optional[ForwardOutput] = None
        for batch in self.batches:
            self.engine.stream.wait_stream(torch.cuda.current_stream())
            ongoing = self.engine.forward_batch(batch)
            self._process_last_data(last)
            last = ongoing
        self._process_last_data(last)
