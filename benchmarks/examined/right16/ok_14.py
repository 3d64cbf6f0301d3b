"""Block manager that swaps sequences between GPU blocks and pinned host blocks."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch


class OutOfBlocks(RuntimeError):
    pass


@dataclass
class Sequence:
    uid: int
    gpu: list[int] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    pending: torch.cuda.Event | None = None


class BlockManager:
    def __init__(self, num_gpu: int, num_cpu: int, block_shape: tuple[int, ...], device: torch.device):
        self.device = device
        self.gpu_blocks = torch.zeros(num_gpu, *block_shape, device=device)
        self.cpu_blocks = torch.zeros(num_cpu, *block_shape, pin_memory=True)
        self._gpu_free: list[tuple[int, torch.cuda.Event | None]] = [(i, None) for i in range(num_gpu)]
        self._cpu_free = list(range(num_cpu))
        self._swap = torch.cuda.Stream(device=device)
        self.gpu_blocks.record_stream(self._swap)

    def _claim(self, count: int) -> list[int]:
        if count > len(self._gpu_free):
            raise OutOfBlocks(f"need {count} blocks, have {len(self._gpu_free)}")
        stream = torch.cuda.current_stream(self.device)
        claimed = []
        for _ in range(count):
            block, busy = self._gpu_free.pop(0)
            if busy is not None:
                stream.wait_event(busy)
            claimed.append(block)
        return claimed

    def grow(self, seq: Sequence, count: int) -> None:
        self.ensure_resident(seq)
        seq.gpu.extend(self._claim(count))

    def ensure_resident(self, seq: Sequence) -> None:
        if seq.cpu:
            self.swap_in(seq)
        if seq.pending is not None:
            torch.cuda.current_stream(self.device).wait_event(seq.pending)

    def swap_out(self, seq: Sequence) -> None:
        if not seq.gpu:
            return
        if len(seq.gpu) > len(self._cpu_free):
            raise OutOfBlocks("host pool exhausted")
        self._swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._swap):
            for block in seq.gpu:
                host = self._cpu_free.pop()
                self.cpu_blocks[host].copy_(self.gpu_blocks[block], non_blocking=True)
                seq.cpu.append(host)
            done = self._swap.record_event()
        self._gpu_free.extend((block, done) for block in seq.gpu)
        seq.gpu = []
        seq.pending = None

    def swap_in(self, seq: Sequence) -> None:
        if not seq.cpu:
            return
        claimed = self._claim(len(seq.cpu))
        self._swap.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._swap):
            for block, host in zip(claimed, seq.cpu):
                self.gpu_blocks[block].copy_(self.cpu_blocks[host], non_blocking=True)
            seq.pending = self._swap.record_event()
        self._cpu_free.extend(seq.cpu)
        seq.gpu, seq.cpu = claimed, []

    def free(self, seq: Sequence) -> None:
        self._gpu_free.extend((block, seq.pending) for block in seq.gpu)
        self._cpu_free.extend(seq.cpu)
        seq.gpu, seq.cpu, seq.pending = [], [], None

    def fill(self, seq: Sequence, value: float) -> None:
        self.ensure_resident(seq)
        for block in seq.gpu:
            self.gpu_blocks[block].fill_(value)

    def checksum(self, seq: Sequence) -> float:
        self.ensure_resident(seq)
        index = torch.tensor(seq.gpu, device=self.device, dtype=torch.int64)
        return self.gpu_blocks.index_select(0, index).sum().item()


def main() -> None:
    manager = BlockManager(16, 64, (2, 16, 64), torch.device("cuda", 0))
    seqs = [Sequence(uid) for uid in range(6)]
    for seq in seqs:
        manager.grow(seq, 4)
        manager.fill(seq, float(seq.uid))
        manager.swap_out(seq)
    for seq in reversed(seqs):
        manager.swap_in(seq)
        print(seq.uid, manager.checksum(seq))
        if seq.uid % 2:
            manager.free(seq)
        else:
            manager.swap_out(seq)


if __name__ == "__main__":
    main()
