import threading
from collections import deque
from multiprocessing.pool import ThreadPool

import torch


class ScratchPool:
    def __init__(self, slots, rows, cols):
        self.space = torch.zeros(slots, rows, cols, device="cuda")
        self.sem = threading.BoundedSemaphore(slots)
        self.idle = deque(range(slots))

    def take(self):
        self.sem.acquire()
        return self.idle.popleft()

    def give(self, slot):
        self.idle.append(slot)
        self.sem.release()


class Scorer:
    def __init__(self, docs, dim, slots=2):
        self.docs = docs
        self.keys = torch.randn(dim, dim, device="cuda")
        self.scores = torch.zeros(docs, dim, device="cuda")
        self.scratch = ScratchPool(slots, 256, dim)
        self.dim = dim
        self.local = threading.local()
        torch.cuda.synchronize()

    def stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream()
        return self.local.stream

    @torch.no_grad()
    def score(self, doc):
        stream = self.stream()
        tokens = torch.randn(256, self.dim).pin_memory()
        slot = self.scratch.take()
        try:
            with torch.cuda.stream(stream):
                area = self.scratch.space[slot]
                area.copy_(tokens, non_blocking=True)
                area.tanh_()
                torch.mean(area @ self.keys, dim=0, out=self.scores[doc])
        finally:
            stream.synchronize()
            self.scratch.give(slot)
        return doc

    def best(self, k):
        norm = self.scores.norm(dim=1)
        return torch.topk(norm, k).indices.tolist()


def main():
    scorer = Scorer(docs=64, dim=128)
    pool = ThreadPool(6)
    try:
        finished = sorted(pool.imap_unordered(scorer.score, range(scorer.docs)))
        assert finished == list(range(scorer.docs))
    finally:
        pool.close()
        pool.join()
    print(scorer.best(5))


if __name__ == "__main__":
    main()
