import numpy as np

from server import EmbeddingServer


def documents(count, seed=4):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.integers(0, 5000, size=(16, rng.integers(8, 64)))


def build(server, count):
    futures = [server.embed(d) for d in documents(count)]
    return np.concatenate([f.result() for f in futures])


def search(index, query, k=5):
    score = index @ query
    top = np.argpartition(-score, k)[:k]
    return top[np.argsort(-score[top])]


def main():
    with EmbeddingServer() as server:
        index = build(server, 60)
        q = server.embed(next(documents(1, seed=9))).result()[0]
    print(index.shape, search(index, q))


if __name__ == "__main__":
    main()
