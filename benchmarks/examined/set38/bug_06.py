"""Send device frames over a socket, length prefixed."""
import socket
import struct
import threading

import numpy as np
from numba import cuda


@cuda.jit
def scale_shift(x, a, b, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        for _ in range(64):
            v = v * a + b
        out[i] = v


class Comm:
    HEADER = struct.Struct("<Q")

    def __init__(self, sock, max_frame):
        self.sock = sock
        self.stream = cuda.stream()
        self.bounce = cuda.pinned_array(max_frame, dtype=np.uint8)

    def _stage(self, frame):
        n = frame.nbytes if hasattr(frame, "nbytes") else frame.size * frame.dtype.itemsize
        view = self.bounce[:n].view(frame.dtype)
        frame.copy_to_host(view, stream=self.stream)
        return view

    def write(self, frames):
        self.sock.sendall(self.HEADER.pack(len(frames)))
        for frame in frames:
            if cuda.is_cuda_array(frame):
                payload = self._stage(frame)
            else:
                payload = np.ascontiguousarray(frame)
            self.sock.sendall(self.HEADER.pack(payload.nbytes))
            self.sock.sendall(memoryview(payload).cast("B"))

    def _recv(self, n):
        out = bytearray(n)
        view = memoryview(out)
        while n:
            got = self.sock.recv_into(view[len(out) - n:], n)
            if not got:
                raise EOFError
            n -= got
        return out

    def read(self):
        (count,) = self.HEADER.unpack(self._recv(self.HEADER.size))
        frames = []
        for _ in range(count):
            (n,) = self.HEADER.unpack(self._recv(self.HEADER.size))
            frames.append(self._recv(n))
        return frames


class Worker:
    def __init__(self, comm, n):
        self.comm = comm
        self.x = cuda.to_device(np.linspace(0, 1, n).astype(np.float32))
        self.out = cuda.device_array(n, dtype=np.float32)

    def task(self, a, b):
        tpb = 256
        grid = (self.x.size + tpb - 1) // tpb
        scale_shift[grid, tpb, self.comm.stream](self.x, a, b, self.out)
        return self.out

    def serve(self, jobs):
        for a, b in jobs:
            meta = np.array([a, b], dtype=np.float64)
            self.comm.write([meta, self.task(np.float32(a), np.float32(b))])


def main():
    n = 1 << 22
    left, right = socket.socketpair()
    received = []

    def consume(k):
        comm = Comm(right, 8)
        for _ in range(k):
            meta, data = comm.read()
            received.append(np.frombuffer(data, dtype=np.float32).mean())

    jobs = [(0.99, 0.01), (1.001, 0.0), (0.5, 0.25)]
    t = threading.Thread(target=consume, args=(len(jobs),))
    t.start()
    Worker(Comm(left, n * 4), n).serve(jobs)
    t.join()
    print(received)


if __name__ == "__main__":
    main()
