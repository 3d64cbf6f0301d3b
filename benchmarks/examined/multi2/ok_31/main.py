import cupy as cp
import numpy as np

from correlate import Correlator
from tiles import Rota, Store


class Noise:
    def __init__(self, shape):
        self.shape = shape

    def load(self, key):
        return np.random.default_rng(key).standard_normal(self.shape, dtype=np.float32)


def main(count=24, shape=(2048, 1024)):
    rota = Rota(4)
    store = Store(Noise(shape), planes=4, rota=rota)
    correlator = Correlator(store, rota, count)
    cp.cuda.Device().synchronize()
    table = correlator.all_pairs()
    print(table.diagonal().mean(), table[0, 1:].std())


if __name__ == "__main__":
    main()
