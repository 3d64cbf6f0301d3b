import cupy as cp
import numpy as np

pool = cp.cuda.MemoryAsyncPool()
cp.cuda.set_allocator(pool.malloc)


class Stage:
    def __init__(self, name):
        self.name = name
        self.stream = cp.cuda.Stream(non_blocking=True)


def make_embedding(stage, ids, table_size):
    with stage.stream:
        idx = cp.asarray(ids)
        table = cp.arange(table_size * 16, dtype=cp.float32).reshape(table_size, 16)
        return table[idx], stage.stream.record()


def attend(producer, consumer, pair):
    emb, filled = pair
    consumer.stream.wait_event(filled)
    with consumer.stream:
        scores = emb @ emb.T
        scores -= scores.max(axis=1, keepdims=True)
        weights = cp.exp(scores)
        weights /= weights.sum(axis=1, keepdims=True)
        mixed = weights @ emb
        read = consumer.stream.record()
    producer.stream.wait_event(read)
    return mixed


def main():
    lookup, attention = Stage("lookup"), Stage("attention")
    rng = np.random.default_rng(7)
    outputs = []
    for _ in range(10):
        pair = make_embedding(lookup, rng.integers(0, 500, size=64), 500)
        outputs.append(attend(lookup, attention, pair))
        del pair
    with attention.stream:
        stacked = cp.stack(outputs)
        print(stacked.get().shape)


if __name__ == "__main__":
    main()
