"""Decoder session with I/O binding and a captured CUDA graph."""
import numpy as np
import cupy as cp
import cupyx

_embed = cp.ElementwiseKernel(
    'raw int64 ids, raw int64 pos, raw float32 table, int32 dim', 'float32 h',
    'h = table[ids[0] * dim + i] + 0.001f * pos[0]', 'embed')


class BoundInput:
    def __init__(self, shape, dtype=np.int64):
        self.host = cupyx.empty_pinned(shape, dtype=dtype)
        self.host[...] = 0
        self.device = cp.zeros(shape, dtype=dtype)


class IoBinding:
    def __init__(self):
        self.inputs = {"input_ids": BoundInput((1,)),
                       "position_ids": BoundInput((1,))}

    def __getitem__(self, name):
        return self.inputs[name].host


class DecoderSession:
    def __init__(self, vocab, dim, layers=24):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.dim = dim
        rs = np.random.RandomState(0)
        self.table = cp.asarray(rs.randn(vocab * dim).astype(np.float32))
        self.weights = [cp.asarray(rs.randn(dim, dim).astype(np.float32) / dim)
                        for _ in range(layers)]
        self.hidden = cp.zeros((dim,), dtype=cp.float32)
        self.scratch = cp.zeros((dim,), dtype=cp.float32)
        self.score = cp.zeros((dim,), dtype=cp.float32)
        self.graph = None
        cp.cuda.Device().synchronize()

    def _forward(self, binding):
        for inp in binding.inputs.values():
            inp.device.set(inp.host, stream=self.stream)
        ids = binding.inputs["input_ids"].device
        pos = binding.inputs["position_ids"].device
        _embed(ids, pos, self.table, np.int32(self.dim), self.hidden)
        for w in self.weights:
            cp.matmul(w, self.hidden, out=self.scratch)
            cp.tanh(self.scratch, out=self.hidden)
        cp.add(self.score, self.hidden, out=self.score)

    def run_with_binding(self, binding):
        with self.stream:
            if self.graph is None:
                self._forward(binding)
                self.stream.synchronize()
                self.stream.begin_capture()
                self._forward(binding)
                self.graph = self.stream.end_capture()
                return
            self.graph.launch(self.stream)

    def fetch_score(self):
        with self.stream:
            return cp.asnumpy(self.score)


def score_prompt(session, binding, tokens):
    for position, token in enumerate(tokens):
        binding["input_ids"][0] = token
        binding["position_ids"][0] = position
        session.run_with_binding(binding)
    return session.fetch_score()


def main():
    binding = IoBinding()
    session = DecoderSession(vocab=32000, dim=2048)
    tokens = np.random.RandomState(1).randint(0, 32000, 256)
    print(np.linalg.norm(score_prompt(session, binding, tokens)))


if __name__ == "__main__":
    main()
