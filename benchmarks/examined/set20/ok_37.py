"""Estimators that run on the per-thread default stream, shared between threads."""
import queue
import threading

import cupy as cp
import numpy as np


class RidgeModel:
    def __init__(self, alpha):
        self.alpha = alpha
        self.coef_ = None
        self.mean_ = None

    def fit(self, x, y):
        with cp.cuda.Stream.ptds as stream:
            xd = cp.asarray(x)
            yd = cp.asarray(y)
            self.mean_ = xd.mean(axis=0)
            xc = xd - self.mean_
            gram = xc.T @ xc + self.alpha * cp.eye(xc.shape[1])
            self.coef_ = cp.linalg.solve(gram, xc.T @ (yd - yd.mean()))
            self.intercept_ = yd.mean()
            stream.synchronize()
        return self

    def predict(self, x):
        with cp.cuda.Stream.ptds as stream:
            xd = cp.asarray(x)
            out = (xd - self.mean_) @ self.coef_ + self.intercept_
            host = out.get(stream=stream)
        return host


def fit_worker(jobs, models):
    for alpha, x, y in jobs:
        models.put(RidgeModel(alpha).fit(x, y))
    models.put(None)


def predict_worker(inbox, x, results, lock):
    while True:
        model = inbox.get()
        if model is None:
            return
        pred = model.predict(x)
        with lock:
            results.append((model.alpha, float(pred.mean()), float(pred.std())))


def main(njobs=12, rows=20_000, cols=64, predictors=3):
    rng = np.random.default_rng(0)
    jobs = []
    for k in range(njobs):
        x = rng.standard_normal((rows, cols))
        y = x @ rng.standard_normal(cols) + 0.1 * rng.standard_normal(rows)
        jobs.append((10.0 ** (k % 4 - 2), x, y))
    x_test = rng.standard_normal((1000, cols))
    models = queue.Queue()
    inboxes = [queue.Queue() for _ in range(predictors)]
    results, lock = [], threading.Lock()
    threads = [threading.Thread(target=fit_worker, args=(jobs, models))]
    threads += [threading.Thread(target=predict_worker, args=(q, x_test, results, lock))
                for q in inboxes]
    for t in threads:
        t.start()
    kept = []
    while (model := models.get()) is not None:
        kept.append(model)
        for q in inboxes:
            q.put(model)
    for q in inboxes:
        q.put(None)
    for t in threads:
        t.join()
    return sorted(results)


if __name__ == "__main__":
    print(len(main()))
