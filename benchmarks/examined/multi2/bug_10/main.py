import numpy as np

from lanes import LaneSet
from pipeline import Pipeline
from sink import StatsSink

SHAPE = (2160, 3840)


def frames(n, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.random(SHAPE, dtype=np.float32)
    for i in range(n):
        yield np.roll(base, i, axis=1)


def show(table, outliers):
    print("frames", table.shape[0])
    print("mean %.4f contrast %.4f" % tuple(table.mean(axis=0)))
    if outliers:
        print("odd ones", outliers)


def main():
    sink = StatsSink()
    pipe = Pipeline(LaneSet(2, SHAPE), sink)
    for i, frame in enumerate(frames(60)):
        pipe.push(i, frame)
    pipe.finish()
    table = sink.table()
    show(table, sink.outliers())


if __name__ == "__main__":
    main()
