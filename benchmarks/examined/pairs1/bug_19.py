"""CuPy logit server with completion callbacks for the HTTP layer."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Completion:
    def __init__(self, width):
        self.data = cupyx.empty_pinned((width,), np.float32)
        self.signal = threading.Event()

    def notify(self, _):
        self.signal.set()


class LogitServer:
    def __init__(self, dim=2048, vocab=32000):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.vocab = vocab
        with self.stream:
            self.head = cp.random.standard_normal((dim, vocab), dtype=cp.float32)
            self.base = cp.random.standard_normal((dim,), dtype=cp.float32)

    def submit(self, scale):
        item = Completion(self.vocab)
        with self.stream:
            logits = cp.tanh(self.base * scale) @ self.head
            probs = cp.exp(logits - logits.max())
            probs /= probs.sum()
            self.stream.launch_host_func(item.notify, None)
            cp.cuda.runtime.memcpyAsync(
                item.data.ctypes.data,
                probs.data.ptr,
                probs.nbytes,
                cp.cuda.runtime.memcpyDeviceToHost,
                self.stream.ptr,
            )
        return item


def client(requests, answers):
    while (item := requests.get()) is not None:
        item.signal.wait()
        answers.append(int(item.data.argmax()))


def main(n=100):
    server = LogitServer()
    requests, answers = queue.Queue(), []
    thread = threading.Thread(target=client, args=(requests, answers))
    thread.start()
    for i in range(n):
        requests.put(server.submit(1.0 + 0.01 * i))
    requests.put(None)
    thread.join()
    server.stream.synchronize()
    return answers


if __name__ == "__main__":
    print(main()[:10])
