import sys

from device import AffineDevice
from jobs import make_jobs


def run(dev, jobs):
    for j in jobs:
        dev.submit(j.name, j.data(dev.n), j.gain, j.offset)
    results = dev.finish()
    return {j.name: j.check(dev.n, results[j.name]) for j in jobs}


def main(count=10, n=1 << 20):
    dev = AffineDevice(n)
    errors = run(dev, make_jobs(count))
    bad = {k: v for k, v in errors.items() if v > 1e-4}
    for k, v in sorted(errors.items()):
        print(k, f"{v:.2e}")
    if bad:
        print(len(bad), "jobs differ", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
