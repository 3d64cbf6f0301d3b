"""Host-side producer of final-layout FP8 weights, pipelined over a few staging slots."""
from dataclasses import dataclass
from typing import List, Tuple

import torch

FP8_MAX = torch.finfo(torch.float8_e4m3fn).max


@dataclass
class _Slot:
    stream: torch.cuda.Stream
    ready: torch.cuda.Event
    host_input: torch.Tensor
    device_input: torch.Tensor
    host_amax: torch.Tensor
    host_output: torch.Tensor
    pending_rows: int = 0
    out_start: int = 0


class FinalLayoutFp8Producer:
    def __init__(self, device: torch.device, rows_per_chunk: int, columns: int, dtype: torch.dtype, num_slots: int = 2):
        self._device = device
        self._rows_per_chunk = rows_per_chunk
        self._slots: List[_Slot] = [
            _Slot(
                stream=torch.cuda.Stream(device),
                ready=torch.cuda.Event(),
                host_input=torch.empty(rows_per_chunk, columns, dtype=dtype, pin_memory=True),
                device_input=torch.empty(rows_per_chunk, columns, dtype=dtype, device=device),
                host_amax=torch.empty(1, dtype=torch.float32, pin_memory=True),
                host_output=torch.empty(rows_per_chunk, columns, dtype=torch.float8_e4m3fn, pin_memory=True),
            )
            for _ in range(num_slots)
        ]
        torch.cuda.synchronize(device)

    def _collect_amax(self, slot: _Slot, amax: torch.Tensor) -> torch.Tensor:
        if slot.pending_rows:
            slot.ready.synchronize()
            amax = torch.maximum(amax, slot.host_amax.cpu())
            slot.pending_rows = 0
        return amax

    def _scan_amax(self, source: torch.Tensor) -> torch.Tensor:
        amax = torch.zeros(1, dtype=torch.float32)
        for i, start in enumerate(range(0, source.shape[0], self._rows_per_chunk)):
            slot = self._slots[i % len(self._slots)]
            amax = self._collect_amax(slot, amax)
            rows = min(self._rows_per_chunk, source.shape[0] - start)
            slot.host_input[:rows].copy_(source[start : start + rows])
            with torch.cuda.stream(slot.stream):
                slot.device_input[:rows].copy_(slot.host_input[:rows], non_blocking=True)
                low, high = slot.device_input[:rows].aminmax()
                slot.host_amax.copy_(torch.maximum(low.abs(), high.abs()).float().reshape(1), non_blocking=True)
                slot.ready.record(slot.stream)
            slot.pending_rows = rows
        for slot in self._slots:
            amax = self._collect_amax(slot, amax)
        return amax

    def _drain(self, slot: _Slot, target: torch.Tensor) -> None:
        if slot.pending_rows:
            slot.ready.synchronize()
            stop = slot.out_start + slot.pending_rows
            target[slot.out_start : stop].copy_(slot.host_output[: slot.pending_rows])
            slot.pending_rows = 0

    def _quantize_rows(self, source: torch.Tensor, scale: torch.Tensor, target: torch.Tensor) -> None:
        for i, start in enumerate(range(0, source.shape[0], self._rows_per_chunk)):
            slot = self._slots[i % len(self._slots)]
            self._drain(slot, target)
            rows = min(self._rows_per_chunk, source.shape[0] - start)
            slot.host_input[:rows].copy_(source[start : start + rows])
            with torch.cuda.stream(slot.stream):
                slot.device_input[:rows].copy_(slot.host_input[:rows], non_blocking=True)
                scaled = slot.device_input[:rows].float() / scale
                quantized = scaled.clamp_(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
                slot.host_output[:rows].copy_(quantized, non_blocking=True)
                slot.ready.record(slot.stream)
            slot.pending_rows, slot.out_start = rows, start
        for slot in self._slots:
            self._drain(slot, target)

    @torch.inference_mode()
    def produce(self, source: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        amax = self._scan_amax(source).to(self._device)
        scale = (amax / FP8_MAX).clamp_(min=1e-12)
        target = torch.empty(source.shape, dtype=torch.float8_e4m3fn)
        self._quantize_rows(source, scale, target)
        return target, scale
