import argparse
import itertools

import numpy as np
import pycuda.autoinit  # noqa: F401

from pools import shared
from pyramid import Pyramid
from worker import Thumbnailer


def pictures(count, height, width):
    rng = np.random.default_rng(5)
    for _ in range(count):
        yield rng.random((height, width), dtype=np.float32)


def main(count=64, width=4096, height=2048):
    pyramid = Pyramid(levels=4)
    workers = [Thumbnailer(pyramid, width, height) for _ in range(3)]
    thumbs = []
    for worker, picture in zip(itertools.cycle(workers), pictures(count, height, width)):
        ready = worker.take()
        if ready is not None:
            thumbs.append(ready)
        worker.start(picture)
    for worker in workers:
        ready = worker.take()
        if ready is not None:
            thumbs.append(ready)
    print(len(thumbs), np.mean([t.mean() for t in thumbs]), shared.held())


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--height", type=int, default=2048)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
