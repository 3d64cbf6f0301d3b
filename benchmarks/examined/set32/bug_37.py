"""Nearest-neighbour scoring against a resident gallery."""
import math

import numpy as np
from numba import cuda, float32


@cuda.jit
def cosine_scores(gallery, norms, query, scores):
    row = cuda.blockIdx.x
    lane = cuda.threadIdx.x
    part = cuda.shared.array(128, float32)
    acc = float32(0.0)
    for j in range(lane, gallery.shape[1], cuda.blockDim.x):
        acc += gallery[row, j] * query[j]
    part[lane] = acc
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if lane < step:
            part[lane] += part[lane + step]
        cuda.syncthreads()
        step //= 2
    if lane == 0:
        scores[row] = part[0] / norms[row]


@cuda.jit
def row_norms(gallery, norms):
    row = cuda.grid(1)
    if row < gallery.shape[0]:
        acc = float32(0.0)
        for j in range(gallery.shape[1]):
            acc += gallery[row, j] * gallery[row, j]
        norms[row] = math.sqrt(acc) + float32(1e-6)


class Gallery:
    def __init__(self, vectors):
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.count, self.dim = vectors.shape
        self.stream = cuda.stream()
        self.vectors = cuda.to_device(vectors, stream=self.stream)
        self.norms = cuda.device_array(self.count, dtype=np.float32, stream=self.stream)
        blocks = (self.count + 127) // 128
        row_norms[blocks, 128, self.stream](self.vectors, self.norms)
        self.query = cuda.pinned_array(self.dim, dtype=np.float32)
        self.scores = cuda.pinned_array(self.count, dtype=np.float32)
        self.stream.synchronize()

    def _load_query(self, vector):
        self.stream.synchronize()
        self.query[:] = vector / (np.linalg.norm(vector) + 1e-6)
        return cuda.to_device(self.query, stream=self.stream)

    def rank(self, vector, k=10):
        query = self._load_query(vector)
        cosine_scores[self.count, 128, self.stream](
            self.vectors, self.norms, query, self.scores
        )
        top = np.argpartition(-self.scores, k)[:k]
        return top[np.argsort(-self.scores[top])]

    def score_of(self, vector, row):
        query = self._load_query(vector)
        cosine_scores[self.count, 128, self.stream](self.vectors, self.norms, query, self.scores)
        self.stream.synchronize()
        return float(self.scores[row])


class Search:
    def __init__(self, vectors, labels):
        self.gallery = Gallery(vectors)
        self.labels = np.asarray(labels)

    def classify(self, queries, k=15):
        out = []
        for q in queries:
            votes = self.labels[self.gallery.rank(q, k)]
            values, counts = np.unique(votes, return_counts=True)
            out.append(values[counts.argmax()])
        return np.asarray(out)


def evaluate(vectors, labels, queries, truth):
    search = Search(vectors, labels)
    return float((search.classify(queries) == np.asarray(truth)).mean())
