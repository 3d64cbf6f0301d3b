import queue

import cupy as cp
import cupyx
import numpy as np


class ScoreStreamer:
    """Streams similarity scores to the host through page-locked slots."""

    def __init__(self, dim=256, items=100_000, slots=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.items = cp.random.standard_normal((items, dim), dtype=cp.float32)
        self.host = [cupyx.empty_pinned((items,), dtype=np.float32) for _ in range(slots)]
        self.free = queue.SimpleQueue()
        self.complete = queue.SimpleQueue()
        for i in range(slots):
            self.free.put(i)

    def submit(self, ticket, query):
        slot = self.free.get()
        with self.stream:
            q = cp.asarray(query)
            scores = self.items @ q
            scores.data.copy_to_host_async(self.host[slot].ctypes.data, scores.nbytes, self.stream)
            self.stream.launch_host_func(self.complete.put, (ticket, slot))

    def next_result(self, k=10):
        ticket, slot = self.complete.get()
        best = np.argpartition(-self.host[slot], k)[:k]
        self.free.put(slot)
        return ticket, best.tolist()


def main():
    rng = np.random.default_rng(3)
    streamer = ScoreStreamer()
    pending, answers = 0, {}
    for ticket in range(64):
        if pending == 4:
            t, best = streamer.next_result()
            answers[t] = best
            pending -= 1
        streamer.submit(ticket, rng.standard_normal(256, dtype=np.float32))
        pending += 1
    while pending:
        t, best = streamer.next_result()
        answers[t] = best
        pending -= 1
    print(len(answers), answers[0])


if __name__ == "__main__":
    main()
