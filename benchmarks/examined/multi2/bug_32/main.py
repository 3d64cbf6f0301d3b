from numba import cuda

from experiment import Experiment, Plan
from grid import Grid
from probes import Probe


def main():
    cuda.select_device(0)
    world = Grid(cells=1 << 22, particles=1 << 20)
    cuda.synchronize()
    exp = Experiment(Plan(steps=200), world, [Probe()])
    for table in exp.run():
        print(table.shape, table[-1])


if __name__ == "__main__":
    main()
