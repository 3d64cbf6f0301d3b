import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class LogitsPublisher(threading.Thread):
    """Hands finished logits to the sampling thread."""

    def __init__(self, vocab, depth=2):
        super().__init__(daemon=True)
        self.inbox = queue.Queue()
        self.slots = queue.Queue()
        self.rows = [cupyx.empty_pinned((vocab,), dtype=np.float32) for _ in range(depth)]
        for i in range(depth):
            self.slots.put(i)
        self.tokens = []

    def publish(self, logits, stream):
        slot = self.slots.get()
        stream.launch_host_func(self.inbox.put, slot)
        logits.data.copy_to_host_async(self.rows[slot].ctypes.data, logits.nbytes, stream)

    def run(self):
        while True:
            slot = self.inbox.get()
            if slot is None:
                return
            row = self.rows[slot]
            probs = np.exp(row - row.max())
            self.tokens.append(int(probs.argmax()))
            self.slots.put(slot)


def main(vocab=128_000, steps=100):
    stream = cp.cuda.Stream(non_blocking=True)
    publisher = LogitsPublisher(vocab)
    publisher.start()
    with stream:
        hidden = cp.random.standard_normal((1024,), dtype=cp.float32)
        head = cp.random.standard_normal((1024, vocab), dtype=cp.float32)
        for _ in range(steps):
            logits = hidden @ head
            publisher.publish(logits, stream)
            hidden = cp.tanh(logits[:1024])
    stream.synchronize()
    publisher.inbox.put(None)
    publisher.join()
    print(publisher.tokens[:10])


if __name__ == "__main__":
    main()
