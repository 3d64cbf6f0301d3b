"""Quantile reports from worker threads while the main thread simulates."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp


class Simulation:
    def __init__(self, size):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.state = cp.random.random(size, dtype=cp.float32)

    def advance(self, steps):
        with self.stream:
            for _ in range(steps):
                self.state *= 0.999
                self.state += 0.001 * cp.sin(7.0 * self.state)

    def freeze(self):
        """Copy of the state, and an event after which it is complete."""
        with self.stream:
            copy = self.state.copy()
        return copy, self.stream.record()


class Reporter:
    """Each worker thread has a stream of its own."""

    def __init__(self, workers):
        self.pool = ThreadPoolExecutor(workers)

    @staticmethod
    def _quantiles(frozen, complete, device_id):
        cp.cuda.Device(device_id).use()
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            stream.wait_event(complete)
            values = cp.quantile(frozen, cp.asarray([0.1, 0.5, 0.9], dtype=cp.float32))
            result = values.get()
        stream.synchronize()
        return result

    def report(self, frozen, complete):
        return self.pool.submit(self._quantiles, frozen, complete, cp.cuda.Device().id)


def main(rounds=12):
    simulation = Simulation(1 << 22)
    reporter = Reporter(workers=2)
    pending = []
    for _ in range(rounds):
        simulation.advance(50)
        frozen, complete = simulation.freeze()
        pending.append((frozen, reporter.report(frozen, complete)))
    for frozen, future in pending:
        print(future.result())


if __name__ == "__main__":
    main()
