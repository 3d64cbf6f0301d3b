import cupy as cp
import numpy as np

from cache import TileCache
from filters import EdgeMap
from tiles import TileSource


def visits(n_tiles, n, seed=1):
    rng = np.random.default_rng(seed)
    for i in rng.zipf(1.4, size=n):
        yield int(i) % n_tiles


def report(cache, order):
    print(f"share {cache.share:.2f} conflicts {cache.conflicts(order)}")
    print(f"uploaded {cache.upload_bytes / 2 ** 20:.0f} MiB")


def main():
    cp.cuda.Device(0).use()
    source = TileSource(side=8192, tile=1024)
    cache = TileCache(source, ways=12)
    edges = EdgeMap(source.tile)
    order = list(visits(len(source), 400))
    for i in order:
        edges.feed(cache(i))
    print("energy", float(edges.energy), "filled", cache.filled)
    report(cache, order)


if __name__ == "__main__":
    main()

