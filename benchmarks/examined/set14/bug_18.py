from dataclasses import dataclass

import torch


@dataclass
class Slot:
    tokens: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    fence: torch.cuda.Event


class StagingRing:
    def __init__(self, depth, max_batch, width):
        self.slots = [
            Slot(
                torch.zeros(max_batch, dtype=torch.long, pin_memory=True),
                torch.zeros(max_batch, dtype=torch.int32, pin_memory=True),
                torch.zeros(max_batch, width, dtype=torch.int32, pin_memory=True),
                torch.cuda.Event(),
            )
            for _ in range(depth)
        ]
        self.next = 0

    def acquire(self):
        slot = self.slots[self.next]
        self.next = (self.next + 1) % len(self.slots)
        slot.fence.synchronize()
        return slot


class CopyIn:
    """Writes everything a replay reads to fixed device addresses."""

    def __init__(self, max_batch, width, depth=2):
        self.tokens = torch.zeros(max_batch, dtype=torch.long, device="cuda")
        self.seq_lens = torch.zeros(max_batch, dtype=torch.int32, device="cuda")
        self.block_table = torch.zeros(max_batch, width, dtype=torch.int32, device="cuda")
        self.ring = StagingRing(depth, max_batch, width)

    def stage(self, step):
        slot = self.ring.acquire()
        n = len(step.tokens)
        slot.tokens[:n] = torch.as_tensor(step.tokens)
        slot.seq_lens[:n] = torch.as_tensor(step.seq_lens, dtype=torch.int32)
        slot.seq_lens[n:].zero_()
        slot.block_table[:n] = torch.as_tensor(step.block_table, dtype=torch.int32)
        slot.fence.record()
        self.tokens.copy_(slot.tokens, non_blocking=True)
        self.seq_lens.copy_(slot.seq_lens, non_blocking=True)
        self.block_table.copy_(slot.block_table, non_blocking=True)


class Engine:
    def __init__(self, model, max_batch, width):
        self.model = model
        self.copy_in = CopyIn(max_batch, width)
        self.graph = torch.cuda.CUDAGraph()
        self.logits = None

    @torch.inference_mode()
    def capture(self):
        inputs = (self.copy_in.tokens, self.copy_in.seq_lens, self.copy_in.block_table)
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(2):
                self.model(*inputs)
        torch.cuda.current_stream().wait_stream(warmup)
        with torch.cuda.graph(self.graph):
            self.logits = self.model(*inputs)

    @torch.inference_mode()
    def run(self, plan, history):
        for step in plan:
            self.copy_in.stage(step)
            self.graph.replay()
            history.append(self.logits[: len(step.tokens)].argmax(dim=-1))
        return torch.stack(history).cpu()
