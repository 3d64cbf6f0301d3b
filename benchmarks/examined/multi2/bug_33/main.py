import numpy as np
import pycuda.autoinit  # noqa: F401

from program import Program
from worker import Crew, Worker


def main(count=60, shape=(512, 1024)):
    rng = np.random.default_rng(5)
    program = Program(gain=0.97)
    crew = Crew(Worker(f"w{i}", program, shape) for i in range(3))
    samples = (rng.standard_normal(shape).astype(np.float32) for _ in range(count))
    total = 0.0
    for y in crew.map(samples):
        total += float(y.mean())
    print(crew.turn, total / count)


if __name__ == "__main__":
    main()
