"""Map on a ring of streams, reduce on one stream, repeated over batches."""
import cupy as cp
import numpy as np


class MapReduce:
    """Each map stream owns its operand slots; the reduce stream owns the sum."""

    def __init__(self, n_maps, rows, cols):
        self.maps = [cp.cuda.Stream(non_blocking=True) for _ in range(n_maps)]
        self.reduce = cp.cuda.Stream(non_blocking=True)
        self.partial = []
        self.consumed = []
        for stream in self.maps:
            with stream:
                self.partial.append(cp.empty((rows, cols), cp.float32))
            self.consumed.append(None)
        with self.reduce:
            self.total = cp.zeros((rows, cols), cp.float32)

    def step(self, lefts, rights):
        stop_events = []
        for slot, stream in enumerate(self.maps):
            if self.consumed[slot] is not None:
                stream.wait_event(self.consumed[slot])
            with stream:
                cp.matmul(lefts[slot], rights[slot], out=self.partial[slot])
                cp.tanh(self.partial[slot], out=self.partial[slot])
            stop_events.append(stream.record())

        with self.reduce:
            for slot, event in enumerate(stop_events):
                self.reduce.wait_event(event)
                self.total += self.partial[slot]
                self.consumed[slot] = self.reduce.record()

    def result(self):
        self.reduce.synchronize()
        with self.reduce:
            return cp.asnumpy(self.total)

    def close(self):
        for stream in self.maps:
            stream.synchronize()
        self.reduce.synchronize()
        self.partial.clear()
        cp.get_default_memory_pool().free_all_blocks(stream=self.reduce)


def make_operands(n, seed):
    rng = np.random.default_rng(seed)
    lefts = [cp.asarray(rng.normal(size=(256, 512)).astype(np.float32)) for _ in range(n)]
    rights = [cp.asarray(rng.normal(size=(512, 256)).astype(np.float32)) for _ in range(n)]
    return lefts, rights


def main():
    n = 6
    engine = MapReduce(n, 256, 256)
    batches = [make_operands(n, seed) for seed in range(4)]
    cp.cuda.Stream.null.synchronize()
    for lefts, rights in batches:
        engine.step(lefts, rights)
    print(np.linalg.norm(engine.result()))
    engine.close()


if __name__ == "__main__":
    main()
