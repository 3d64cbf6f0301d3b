import argparse

import numpy as np

from spectra import welch


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--total", type=int, default=100)
    ap.add_argument("--rows", type=int, default=256)
    ap.add_argument("--width", type=int, default=1024)
    ap.add_argument("--out", default=None)
    return ap.parse_args()


def main():
    args = parse()
    p = welch(args.total, args.rows, args.width)
    top = np.argsort(p)[-5:][::-1]
    for i in top:
        print(i, p[i])
    if args.out:
        np.save(args.out, p)


if __name__ == "__main__":
    main()
