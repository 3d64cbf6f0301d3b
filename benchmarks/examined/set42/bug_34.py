"""Receive side of an exchange: RMM buffers are unpacked by CuPy kernels."""
from typing import Iterator

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

HEADER = 4096


class Inbox:
    """Turns wire messages into device buffers on the receive stream."""

    def __init__(self, message_bytes: int):
        self.message_bytes = message_bytes
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cp_stream)

    def receive(self, message: np.ndarray) -> rmm.DeviceBuffer:
        buf = rmm.DeviceBuffer(size=self.message_bytes, stream=self.stream)
        buf.copy_from_host(message, stream=self.stream)
        return buf


class Unpacker:
    def __init__(self, rows: int):
        self.rows = rows
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.sums = cp.zeros(rows, dtype=cp.float32)

    def unpack(self, buf: rmm.DeviceBuffer, arrived: cp.cuda.Event):
        self.stream.wait_event(arrived)
        with self.stream:
            payload = cp.asarray(buf)[HEADER:].view(cp.float32)
            table = payload.reshape(-1, self.rows)
            for _ in range(4):
                self.sums += cp.sqrt(cp.abs(table)).sum(axis=0)


class Exchange:
    def __init__(self, message_bytes: int, rows: int):
        self.inbox = Inbox(message_bytes)
        self.unpacker = Unpacker(rows)

    def run(self, messages: Iterator[np.ndarray]) -> np.ndarray:
        for message in messages:
            buf = self.inbox.receive(message)
            arrived = self.inbox.cp_stream.record()
            self.unpacker.unpack(buf, arrived)
            del buf
        with self.unpacker.stream:
            return cp.asnumpy(self.unpacker.sums)


def wire_messages(count: int, nbytes: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for i in range(count):
        body = rng.random((nbytes - HEADER) // 4, dtype=np.float32) + i
        message = np.zeros(nbytes, dtype=np.uint8)
        message[HEADER:] = body.view(np.uint8)
        yield message


def main(count: int = 20, rows: int = 1024):
    nbytes = HEADER + 4 * rows * 16384
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(
            rmm.mr.CudaMemoryResource(), initial_pool_size=2 << 30
        )
    )
    sums = Exchange(nbytes, rows).run(wire_messages(count, nbytes))
    print(sums[:4])


if __name__ == "__main__":
    main()
