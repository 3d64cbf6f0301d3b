import numpy as np

from index import Index


def pictures(count, side=1024, seed=4):
    rng = np.random.default_rng(seed)
    for k in range(count):
        phase = np.linspace(0, 2 + k, side, dtype=np.float32)
        wave = 127 + 100 * np.sin(phase[:, None] + 0.5 * phase[None, :])
        yield np.clip(wave + rng.normal(0, 5, (side, side)), 0, 255).astype(np.uint8)


def main():
    collection = list(pictures(48))
    index = Index()
    index.add(collection)
    for k in (3, 17, 40):
        print(k, index.nearest(collection[k]))
    index.close()


if __name__ == "__main__":
    main()
