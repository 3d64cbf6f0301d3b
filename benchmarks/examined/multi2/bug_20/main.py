import argparse

import numpy as np

from field import Field
from gpu import open_device
from heat import Heat
from probe import Probe


def main(n=4096, steps=400, every=20):
    device = open_device()
    field = Field(n)
    heat = Heat(field, device)
    probe = Probe(field, capacity=steps // every)
    for k in range(steps):
        heat.advance()
        if k % every == 0 and not probe.full:
            probe.sample(heat.written)
    pictures = probe.pictures()
    np.save("heat.npy", pictures)
    print(pictures.shape, pictures[-1].max())


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
