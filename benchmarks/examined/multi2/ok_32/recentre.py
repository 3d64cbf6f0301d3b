import cupy as cp


class Recentre:
    """Takes the mean off in place now and then."""

    def __init__(self, every):
        self.every = every

    def due(self, turn):
        return turn % self.every == 0

    def apply(self, walkers):
        with walkers.lane.for_arrays:
            a = cp.asarray(walkers.pos)
            a -= a.mean()
