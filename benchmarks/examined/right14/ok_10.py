"""Swapping of paged KV-cache blocks between device and host."""
from __future__ import annotations

from typing import Iterable

import torch


class KVSwapper:
    def __init__(
        self,
        num_gpu: int,
        num_cpu: int,
        block_shape: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype = torch.float16,
    ) -> None:
        self.device = device
        self.gpu = torch.zeros((num_gpu, *block_shape), dtype=dtype, device=device)
        self.cpu = torch.zeros((num_cpu, *block_shape), dtype=dtype, pin_memory=True)
        self.free_gpu = list(range(num_gpu))
        self.free_cpu = list(range(num_cpu))
        self.mover = torch.cuda.Stream(device)
        self.gpu.record_stream(self.mover)
        self.leaving: dict[int, torch.cuda.Event] = {}
        self.arriving: dict[int, torch.cuda.Event] = {}

    def _settle(self, block: int) -> None:
        stream = torch.cuda.current_stream(self.device)
        for table in (self.leaving, self.arriving):
            event = table.pop(block, None)
            if event is not None:
                stream.wait_event(event)

    def allocate(self) -> int:
        block = self.free_gpu.pop()
        self._settle(block)
        return block

    def release(self, block: int) -> None:
        self._settle(block)
        self.free_gpu.append(block)

    def swap_out(self, blocks: Iterable[int]) -> list[int]:
        blocks = list(blocks)
        if len(blocks) > len(self.free_cpu):
            raise RuntimeError("host KV pool exhausted")
        slots = [self.free_cpu.pop() for _ in blocks]
        self.mover.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.mover):
            for block, slot in zip(blocks, slots):
                self.cpu[slot].copy_(self.gpu[block], non_blocking=True)
        done = self.mover.record_event()
        for block in blocks:
            self.leaving[block] = done
            self.free_gpu.append(block)
        return slots

    def swap_in(self, slots: Iterable[int]) -> list[int]:
        slots = list(slots)
        if len(slots) > len(self.free_gpu):
            raise RuntimeError("device KV pool exhausted")
        blocks = [self.free_gpu.pop() for _ in slots]
        self.mover.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.mover):
            for block, slot in zip(blocks, slots):
                self.gpu[block].copy_(self.cpu[slot], non_blocking=True)
        done = self.mover.record_event()
        for block in blocks:
            self.leaving.pop(block, None)
            self.arriving[block] = done
        self.free_cpu.extend(slots)
        return blocks

    def gather(self, blocks: list[int]) -> torch.Tensor:
        for block in blocks:
            self._settle(block)
        index = torch.tensor(blocks, dtype=torch.long, device=self.device)
        return self.gpu.index_select(0, index)

    def write(self, block: int, offset: int, value: torch.Tensor) -> None:
        self._settle(block)
        self.gpu[block, offset].copy_(value)


def preempt_and_resume(swapper: KVSwapper, running: list[int]) -> torch.Tensor:
    slots = swapper.swap_out(running)
    fresh = swapper.allocate()
    swapper.write(fresh, 0, torch.ones_like(swapper.gpu[fresh, 0]))
    swapper.release(fresh)
    return swapper.gather(swapper.swap_in(slots))
