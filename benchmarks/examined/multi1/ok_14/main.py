import numpy as np

from analysis import PeakFinder, merge


def trace(seed, n=1 << 18, peaks=20):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = rng.normal(0, 1, n) + 5 * np.sin(t / 9000.0)
    for p in rng.integers(100, n - 100, peaks):
        y[p - 3:p + 4] += 12.0
    return y.astype(np.float32)


def main(count=8):
    finder = PeakFinder()
    for seed in range(count):
        hits, level, cut = finder.find(trace(seed))
        spans = merge(hits)
        print(seed, f"{level:+.3f}", f"{cut:.3f}", len(spans))
        for a, b in spans[:3]:
            print("   ", a, b)


if __name__ == "__main__":
    main()
