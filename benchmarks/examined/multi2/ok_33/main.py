import numpy as np
import pycuda.autoinit  # noqa: F401

from context import on_device
from kernels import Distance
from matcher import Matcher


def main(size=1 << 20, references=12, queries=40):
    rng = np.random.default_rng(9)
    known = [rng.random(size, dtype=np.float32) for _ in range(references)]
    rooms = [on_device(k) for k in known]
    distance = Distance()
    matchers = [Matcher(distance, rooms, size) for _ in range(4)]
    right = 0
    for start in range(0, queries, len(matchers)):
        asked = []
        for m in matchers:
            truth = int(rng.integers(references))
            m.ask(known[truth] + 0.1 * rng.random(size, dtype=np.float32))
            asked.append(truth)
        for m, truth in zip(matchers, asked):
            right += m.tell()[0] == truth
    print(right, "of", queries)


if __name__ == "__main__":
    main()
