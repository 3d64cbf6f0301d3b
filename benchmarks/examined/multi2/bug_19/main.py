import argparse

import numpy as np
import pycuda.autoinit  # noqa: F401

from imaging import Denoiser, make_lanes


def grab(rng, lane):
    lane.frame[:] = rng.random(lane.frame.shape, dtype=np.float32)


def main(rounds=50, width=3840, height=2160):
    rng = np.random.default_rng(11)
    denoiser = Denoiser(radius=9)
    lanes = make_lanes(["left", "right"], width, height)
    shift = []
    for _ in range(rounds):
        for lane in lanes:
            grab(rng, lane)
        for lane in lanes:
            lane.issue(denoiser)
        left, right = (lane.collect() for lane in lanes)
        shift.append(float(np.abs(left - right).mean()))
    print(np.mean(shift))


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--width", type=int, default=3840)
    parser.add_argument("--height", type=int, default=2160)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
