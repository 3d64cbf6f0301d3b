"""Loudness of audio windows; finished slots are announced by host functions."""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import cupy as cp
import cupyx
import numpy as np


class _Slot:
    def __init__(self, index: int, batch: int, window: int):
        self.index = index
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = cupyx.zeros_pinned((batch, window), dtype=np.float32)
        self.host_out = cupyx.zeros_pinned((batch,), dtype=np.float32)
        self.keep: tuple = ()
        self.tag: object = None


class LoudnessService:
    def __init__(self, batch: int, window: int, sink: Callable[[object, np.ndarray], None], slots: int = 3):
        self.batch, self.window = batch, window
        self._sink = sink
        self._slots = [_Slot(i, batch, window) for i in range(slots)]
        self._free: queue.Queue[int] = queue.Queue()
        self._done: queue.Queue[int | None] = queue.Queue()
        for slot in self._slots:
            self._free.put(slot.index)
        self._taper = np.hanning(window).astype(np.float32)
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._deliver, daemon=True)
        self._thread.start()

    def submit(self, tag: object, samples: np.ndarray) -> None:
        if samples.shape != (self.batch, self.window):
            raise ValueError(f"expected {(self.batch, self.window)}, got {samples.shape}")
        slot = self._slots[self._free.get()]
        try:
            self._enqueue(slot, tag, samples)
        except BaseException:
            slot.stream.synchronize()
            self._free.put(slot.index)
            raise

    def _enqueue(self, slot: _Slot, tag: object, samples: np.ndarray) -> None:
        slot.tag = tag
        slot.keep = ()
        np.multiply(samples, self._taper, out=slot.host_in)
        with slot.stream:
            device = cp.empty(slot.host_in.shape, dtype=np.float32)
            device.set(slot.host_in, stream=slot.stream)
            power = cp.square(device).mean(axis=1)
            level = 10.0 * cp.log10(power + np.float32(1e-12))
            level.get(stream=slot.stream, out=slot.host_out)
            slot.keep = (device, power, level)
            slot.stream.launch_host_func(self._done.put, slot.index)

    def _deliver(self) -> None:
        while True:
            index = self._done.get()
            if index is None:
                return
            slot = self._slots[index]
            try:
                self._sink(slot.tag, slot.host_out.copy())
            except Exception as error:
                self.errors.append(error)
            finally:
                self._free.put(index)

    def close(self) -> None:
        for slot in self._slots:
            slot.stream.synchronize()
        self._done.put(None)
        self._thread.join()


def main() -> None:
    levels: dict[int, float] = {}

    def sink(tag: object, level: np.ndarray) -> None:
        levels[int(tag)] = float(level.mean())

    service = LoudnessService(64, 1024, sink)
    time = np.arange(1024, dtype=np.float32)
    buffer = np.empty((64, 1024), dtype=np.float32)
    try:
        for gain in range(1, 60):
            buffer[:] = gain * np.sin(2 * np.pi * 32 * time / 1024)
            service.submit(gain, buffer)
    finally:
        service.close()
    ordered = [levels[gain] for gain in sorted(levels)]
    print(ordered == sorted(ordered), len(ordered), service.errors)


if __name__ == "__main__":
    main()
