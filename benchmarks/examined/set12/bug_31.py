import cupy as cp
import numpy as np


def softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = cp.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


class DecodeDriver:
    """Captures one decode step and replays it for every token."""

    def __init__(self, weights, dim, hidden, vocab):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.embed = cp.asarray(weights["embed"], dtype=cp.float32)
            self.w_up = cp.asarray(weights["w_up"], dtype=cp.float32)
            self.w_down = cp.asarray(weights["w_down"], dtype=cp.float32)
            self.w_head = cp.asarray(weights["w_head"], dtype=cp.float32)
            self.x = cp.zeros((1, dim), dtype=cp.float32)
            self.logits = cp.zeros((1, vocab), dtype=cp.float32)
        self.stream.synchronize()
        self.graph = None

    def _step(self):
        h = cp.matmul(self.x, self.w_up)
        act = cp.maximum(h, 0.0)
        self.x += cp.matmul(act, self.w_down)
        cp.matmul(self.x, self.w_head, out=self.logits)

    def prepare(self):
        with self.stream:
            self._step()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._step()
            self.graph = self.stream.end_capture()
            self.x.fill(0)

    def decode(self, token, steps, temperature=1.0):
        if self.graph is None:
            self.prepare()
        history = []
        tokens = []
        with self.stream:
            for _ in range(steps):
                self.x[...] = self.embed[token][None, :]
                self.graph.launch(self.stream)
                probs = softmax(self.logits / temperature)
                history.append(probs)
                token = int(probs.argmax())
                tokens.append(token)
            entropy = -sum(float((p * cp.log(p + 1e-9)).sum()) for p in history)
        return tokens, entropy / max(len(tokens), 1)


def load(path, dim=1024, hidden=4096, vocab=4096):
    with np.load(path) as data:
        weights = {k: data[k] for k in ("embed", "w_up", "w_down", "w_head")}
    return DecodeDriver(weights, dim, hidden, vocab)
