"""Parallel feature preparation in a thread pool, training step on a private stream."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


def prepare(path):
    raw = cp.asarray(np.load(path))
    x = raw[:, :-1].astype(cp.float32)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)
    y = raw[:, -1].astype(cp.float32)
    return cp.tanh(x), y


class LinearTrainer:
    def __init__(self, dims, lr=1e-2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.w = cp.zeros(dims, cp.float32)
        self.lr = lr
        self.keep = []

    def step(self, x, y):
        err = x @ self.w - y
        grad = x.T @ err / len(y)
        self.w -= self.lr * grad
        self.keep.append((x, y))
        if len(self.keep) == 32:
            self.stream.synchronize()
            self.keep.clear()
        return err

    def weights(self):
        return cp.asnumpy(self.w)


def train(paths, dims, epochs=3):
    trainer = LinearTrainer(dims)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for _ in range(epochs):
            for x, y in pool.map(prepare, paths):
                trainer.step(x, y)
    return trainer.weights()


if __name__ == "__main__":
    files = [f"/data/shards/part-{i:04d}.npy" for i in range(128)]
    np.save("weights.npy", train(files, 512))
