"""One-dimensional diffusion over all GPUs of a host with peer pulls."""
import cupy as cp


class Shard:
    def __init__(self, device: int, n: int):
        self.device = device
        self.n = n
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.u = cp.zeros(n + 2, dtype=cp.float64)
                self.v = cp.zeros(n + 2, dtype=cp.float64)
                self.u[1:-1] = cp.random.random(n)
                self.computed = self.stream.record()
                self.pulled = self.stream.record()

    def update(self, alpha: float, neighbours: list["Shard"]) -> None:
        with cp.cuda.Device(self.device), self.stream:
            for other in neighbours:
                self.stream.wait_event(other.pulled)
            lap = self.u[:-2] + self.u[2:] - 2 * self.u[1:-1]
            self.v[1:-1] = self.u[1:-1] + alpha * lap
            self.u, self.v = self.v, self.u
            self.computed = self.stream.record()

    def pull(self, left: "Shard | None", right: "Shard | None") -> None:
        with cp.cuda.Device(self.device), self.stream:
            if left is not None:
                self._fetch(0, left, left.n)
            if right is not None:
                self._fetch(self.n + 1, right, 1)
            self.pulled = self.stream.record()

    def _fetch(self, dst_index: int, src: "Shard", src_index: int) -> None:
        self.stream.wait_event(src.computed)
        cp.cuda.runtime.memcpyPeerAsync(
            self.u.data.ptr + 8 * dst_index, self.device,
            src.u.data.ptr + 8 * src_index, src.device, 8, self.stream.ptr,
        )


class Rod:
    def __init__(self, n: int):
        self.shards = [Shard(d, n) for d in range(cp.cuda.runtime.getDeviceCount())]
        self._pull_all()

    def _around(self, i: int):
        left = self.shards[i - 1] if i > 0 else None
        right = self.shards[i + 1] if i + 1 < len(self.shards) else None
        return left, right

    def _pull_all(self) -> None:
        for i, shard in enumerate(self.shards):
            shard.pull(*self._around(i))

    def step(self, alpha: float = 0.2) -> None:
        for i, shard in enumerate(self.shards):
            shard.update(alpha, [s for s in self._around(i) if s is not None])
        self._pull_all()

    def heat(self) -> float:
        total = 0.0
        for shard in self.shards:
            with cp.cuda.Device(shard.device), shard.stream:
                total += float(shard.u[1:-1].sum())
        return total


def main():
    rod = Rod(1 << 20)
    for k in range(100):
        rod.step()
    print(rod.heat())


if __name__ == "__main__":
    main()
