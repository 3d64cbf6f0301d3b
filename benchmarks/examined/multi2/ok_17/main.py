import argparse
import sys

import cupy as cp
import numpy as np

from wave import Grid, Recorder, Solver


def main(n=4096, steps=400, every=3):
    stream = cp.cuda.Stream(non_blocking=True)
    solver = Solver(Grid(n), stream)
    recorder = Recorder((n, n), solver.stream)
    for k in range(steps):
        solver.step()
        if k % every == 0:
            recorder.shoot(solver.field)
    profiles = recorder.finish()
    np.save(sys.argv[1] if len(sys.argv) > 1 else "profiles.npy", profiles)
    print(profiles.shape, float(np.abs(profiles).max()))


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
