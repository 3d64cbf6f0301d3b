import cupy as cp


class MapReduce:
    """Runs one map function per worker stream and folds the parts elsewhere."""

    def __init__(self, workers=8):
        self.map_streams = [cp.cuda.Stream(non_blocking=True) for _ in range(workers)]
        self.reduce_stream = cp.cuda.Stream(non_blocking=True)

    def map(self, fn, seeds):
        parts, stops = [], []
        for i, seed in enumerate(seeds):
            stream = self.map_streams[i % len(self.map_streams)]
            with stream:
                parts.append(fn(seed))
            stops.append(stream.record())
        return parts, stops

    def reduce(self, parts, stops):
        for stop in stops:
            self.reduce_stream.wait_event(stop)
        with self.reduce_stream:
            out = parts[0].copy()
            for part in parts[1:]:
                out += part
            result = float(out.sum())
        return result


CELLS = 1 << 18
PARTS = 32


def pi_part(k):
    x = (cp.arange(CELLS, dtype=cp.float64) + (k * CELLS + 0.5)) / (CELLS * PARTS)
    return 4.0 / (1.0 + x * x)


def main():
    job = MapReduce()
    for epoch in range(4):
        parts, stops = job.map(pi_part, range(PARTS))
        area = job.reduce(parts, stops)
        print(epoch, area / (CELLS * PARTS))


if __name__ == "__main__":
    main()
