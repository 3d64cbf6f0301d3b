from __future__ import annotations

import threading
from queue import SimpleQueue

import cupy as cp
import cupyx
import numpy as np


class Mailbox:
    def __init__(self, n: int) -> None:
        self.host = cupyx.empty_pinned(n, dtype=np.float32)
        self.device = cp.empty(n, dtype=cp.float32)
        self.tag = -1


class StreamingWriter:
    """Hands finished results to a writer thread from a stream callback."""

    def __init__(self, n: int, boxes: int = 3) -> None:
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.idle: SimpleQueue = SimpleQueue()
        self.full: SimpleQueue = SimpleQueue()
        for _ in range(boxes):
            self.idle.put(Mailbox(n))
        cp.cuda.get_current_stream().synchronize()
        self.rows: dict[int, float] = {}
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        while True:
            box = self.full.get()
            if box is None:
                return
            self.rows[box.tag] = float(box.host.sum())
            self.idle.put(box)

    def submit(self, tag: int, x: cp.ndarray) -> None:
        box = self.idle.get()
        box.tag = tag
        with self.stream:
            cp.sqrt(x, out=box.device)
            box.device.get(out=box.host, blocking=False)
            self.stream.launch_host_func(self.full.put, box)

    def close(self) -> dict[int, float]:
        self.stream.synchronize()
        self.full.put(None)
        self.thread.join()
        return self.rows


def main() -> None:
    n = 1 << 20
    writer = StreamingWriter(n)
    with writer.stream:
        x = cp.arange(n, dtype=cp.float32)
    for tag in range(32):
        with writer.stream:
            x += 1
        writer.submit(tag, x)
    print(len(writer.close()))


if __name__ == "__main__":
    main()
