"""Worker threads score documents; flags and scores live in mapped host memory."""
import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def score_block(docs, query, threshold, scores, hits):
    i = cuda.grid(1)
    if i >= docs.shape[0]:
        return
    acc = np.float32(0.0)
    for j in range(docs.shape[1]):
        acc += docs[i, j] * query[j]
    scores[i] = acc
    if acc >= threshold:
        cuda.atomic.add(hits, 0, 1)


class Worker(threading.Thread):
    def __init__(self, index, docs, jobs, replies):
        super().__init__(daemon=True)
        self.index = index
        self.docs = docs
        self.jobs = jobs
        self.replies = replies

    def _setup(self):
        self.stream = cuda.stream()
        n, dim = self.docs.shape
        self.query = cuda.pinned_array(dim, dtype=np.float32)
        self.device_query = cuda.device_array(dim, dtype=np.float32, stream=self.stream)
        self.scores = cuda.mapped_array(n, dtype=np.float32)
        self.hits = cuda.mapped_array(1, dtype=np.int64)
        self.done = cuda.event(timing=False)
        self.grid = (n + 127) // 128

    def _answer(self, query, threshold, top):
        self.query[:] = query
        self.hits[0] = 0
        self.device_query.copy_to_device(self.query, stream=self.stream)
        score_block[self.grid, 128, self.stream](
            self.docs, self.device_query, np.float32(threshold), self.scores, self.hits
        )
        self.done.record(self.stream)
        self.done.synchronize()
        best = np.argsort(self.scores)[::-1][:top]
        return int(self.hits[0]), best.tolist(), self.scores[best].tolist()

    def run(self):
        try:
            self._setup()
        except Exception as exc:
            self.replies.put((None, exc))
            return
        while True:
            job = self.jobs.get()
            if job is None:
                return
            ticket, query, threshold, top = job
            try:
                self.replies.put((ticket, self._answer(query, threshold, top)))
            except Exception as exc:
                self.replies.put((ticket, exc))


def search(documents, queries, threshold=0.5, top=5, workers=3):
    docs = cuda.to_device(np.ascontiguousarray(documents, dtype=np.float32))
    cuda.synchronize()
    jobs, replies = queue.Queue(), queue.Queue()
    pool = [Worker(i, docs, jobs, replies) for i in range(workers)]
    for w in pool:
        w.start()
    for ticket, q in enumerate(queries):
        jobs.put((ticket, np.array(q, dtype=np.float32), threshold, top))
    answers = {}
    while len(answers) < len(queries):
        ticket, reply = replies.get()
        if isinstance(reply, Exception):
            raise reply
        answers[ticket] = reply
    for _ in pool:
        jobs.put(None)
    for w in pool:
        w.join()
    return [answers[t] for t in range(len(queries))]


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    base = rng.standard_normal((20_000, 64))
    print(search(base, [base[3], base[77], rng.standard_normal(64)])[0])
