"""Streaming tokens out of a CuPy decoder; the driver notifies the response thread."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class ResponseThread(threading.Thread):
    def __init__(self, batch, depth=3):
        super().__init__(daemon=True)
        self.free = queue.Queue()
        self.done = queue.Queue()
        self.tokens = []
        for _ in range(depth):
            self.free.put(cupyx.empty_pinned((batch,), np.int64))

    def run(self):
        while (buf := self.done.get()) is not None:
            self.tokens.append(buf.tolist())
            self.free.put(buf)


class Decoder:
    def __init__(self, responses, dim=1024, vocab=32000):
        self.responses = responses
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.emb = cp.random.standard_normal((vocab, dim), dtype=cp.float32)
            self.w = cp.random.standard_normal((dim, dim), dtype=cp.float32) / 32
            self.state = cp.zeros((16, dim), dtype=cp.float32)

    def step(self):
        with self.stream:
            self.state = cp.tanh(self.state @ self.w + 0.1)
            ids = cp.argmax(self.state @ self.emb.T, axis=1)
            self.state += self.emb[ids]
            buf = self.responses.free.get()
            cp.cuda.runtime.memcpyAsync(
                buf.ctypes.data, ids.data.ptr, ids.nbytes, cp.cuda.runtime.memcpyDeviceToHost, self.stream.ptr
            )
            self.stream.launch_host_func(self.responses.done.put, buf)


def main(steps=200):
    responses = ResponseThread(16)
    responses.start()
    decoder = Decoder(responses)
    for _ in range(steps):
        decoder.step()
    decoder.stream.synchronize()
    responses.done.put(None)
    responses.join()
    return responses.tokens


if __name__ == "__main__":
    print(len(main()))
