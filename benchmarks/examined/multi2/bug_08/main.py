import cupy as cp
import numpy as np

from aggregate import Aggregator
from slots import SlotTable
from store import FeatureStore

BLOCKS, ROWS, DIM = 64, 65536, 128


def walk(rng, n):
    here = 0
    for _ in range(n):
        here = int((here + rng.integers(-6, 7)) % BLOCKS)
        yield here


def describe(table, store):
    mib = table.misses * store.block_bytes / 2 ** 20
    print(f"hits {table.hits} misses {table.misses} rate {table.hit_rate:.2f}")
    print(f"uploaded {mib:.0f} MiB of {store.host_bytes / 2 ** 20:.0f} MiB")


def main():
    cp.cuda.Device(0).use()
    table = SlotTable(16, ROWS, DIM)
    store = FeatureStore(BLOCKS, ROWS, DIM, table)
    cp.cuda.Device(0).synchronize()
    agg = Aggregator(store, DIM)
    rng = np.random.default_rng(3)
    for block in walk(rng, 500):
        agg.visit(block)
    print(np.linalg.norm(agg.result()))
    describe(table, store)


if __name__ == "__main__":
    main()
