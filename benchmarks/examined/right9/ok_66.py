import cupy as cp


class StreamTask:
    """Monte Carlo task whose arrays come from the stream-ordered allocator."""

    def __init__(self, seed):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.finished = cp.cuda.Event(disable_timing=True)
        self.seed = seed
        self.paths = None

    def simulate(self, paths, steps, sigma):
        with self.stream:
            gen = cp.random.RandomState(self.seed)
            level = cp.ones(paths, cp.float64)
            for _ in range(steps):
                z = gen.standard_normal(paths)
                level *= cp.exp(sigma * z - 0.5 * sigma**2)
            self.paths = level
            self.finished.record(self.stream)

    def release(self, consumed):
        self.stream.wait_event(consumed)
        self.paths = None


class Desk:
    def __init__(self, tasks):
        self.tasks = [StreamTask(s) for s in range(tasks)]
        self.main = cp.cuda.Stream(non_blocking=True)

    def price(self, strike, paths=200_000, steps=50, sigma=0.02):
        for task in self.tasks:
            task.simulate(paths, steps, sigma)
        consumed = cp.cuda.Event(disable_timing=True)
        with self.main:
            payoff = cp.zeros(())
            for task in self.tasks:
                self.main.wait_event(task.finished)
                payoff += cp.maximum(task.paths - strike, 0).mean()
            consumed.record(self.main)
            for task in self.tasks:
                task.release(consumed)
            return float(payoff) / len(self.tasks)


def main():
    pool = cp.cuda.MemoryAsyncPool()
    cp.cuda.set_allocator(pool.malloc)
    desk = Desk(6)
    for strike in (0.9, 1.0, 1.1):
        print(strike, desk.price(strike))


if __name__ == "__main__":
    main()
