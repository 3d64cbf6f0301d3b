from numba import cuda

from census import Census
from recentre import Recentre
from walkers import Walkers


def simulate(walkers, census, recentre, turns):
    for turn in range(1, turns + 1):
        walkers.move()
        census.count(walkers)
        if recentre.due(turn):
            recentre.apply(walkers)
    return census.table()


def main():
    cuda.select_device(0)
    table = simulate(Walkers(1 << 20), Census(), Recentre(5), turns=60)
    print(table.shape, table[-1])


if __name__ == "__main__":
    main()
