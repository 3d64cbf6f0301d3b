import argparse

import numpy as np

from panorama import Canvas, TileWorkers


def main(height=7168, width=14336, tile=2048, overlap=1024):
    rng = np.random.default_rng(2)
    source = rng.random((height, width), dtype=np.float32)
    canvas = Canvas(height, width, tile, overlap)
    workers = TileWorkers(4, (tile, tile))
    jobs = ((where, np.ascontiguousarray(source[where])) for where in canvas.places())
    for where, done in workers.map(jobs):
        canvas.blend(where, done)
    picture = canvas.finish()
    workers.close()
    print(picture.shape, picture.mean())


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--height", type=int, default=7168)
    parser.add_argument("--width", type=int, default=14336)
    parser.add_argument("--tile", type=int, default=2048)
    parser.add_argument("--overlap", type=int, default=1024)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
