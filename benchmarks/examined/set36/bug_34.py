"""Ring all-gather between the GPUs of one host, written with one-sided puts."""
import torch


class RankState:
    def __init__(self, rank, world, shard, dtype=torch.float16):
        self.rank = rank
        self.device = torch.device("cuda", rank)
        with torch.cuda.device(self.device):
            self.recvbuf = torch.zeros(world, shard, dtype=dtype, device=self.device)
            self.put_stream = torch.cuda.Stream()
            self.staged = torch.cuda.Event()
            self.arrived = [torch.cuda.Event() for _ in range(world)]


class RingAllGather:
    """Each rank writes its chunk into the neighbour's buffer; chunks are forwarded step by step."""

    def __init__(self, world, shard):
        self.world = world
        self.ranks = [RankState(r, world, shard) for r in range(world)]
        for r in self.ranks:
            torch.cuda.synchronize(r.device)

    def _copy_to_self(self, state, shard):
        with torch.cuda.device(state.device):
            stream = torch.cuda.current_stream()
            state.recvbuf[state.rank].copy_(shard, non_blocking=True)
            state.staged.record(stream)
            state.put_stream.wait_event(state.staged)

    def _put(self, src: RankState, dst: RankState, chunk):
        with torch.cuda.device(src.device), torch.cuda.stream(src.put_stream):
            dst.recvbuf[chunk].copy_(src.recvbuf[chunk], non_blocking=True)
            dst.arrived[chunk] = src.put_stream.record_event()

    def _finish(self, state):
        with torch.cuda.device(state.device):
            stream = torch.cuda.current_stream()
            for chunk in range(self.world):
                if chunk != state.rank:
                    stream.wait_event(state.arrived[chunk])

    def __call__(self, shards):
        """shards[r] lives on device r. Returns one gathered buffer per device."""
        for state, shard in zip(self.ranks, shards):
            self._copy_to_self(state, shard)
        for step in range(self.world - 1):
            for src in self.ranks:
                chunk = (src.rank - step) % self.world
                if step > 0:
                    src.put_stream.wait_event(src.arrived[chunk])
                self._put(src, self.ranks[(src.rank + 1) % self.world], chunk)
        for state in self.ranks:
            self._finish(state)
        return [state.recvbuf for state in self.ranks]


class ShardedLinear:
    """Weights are gathered for every call; each device keeps only its own shard."""

    def __init__(self, ring: RingAllGather, out_features, in_features):
        self.ring = ring
        self.shape = (out_features, in_features)
        per_rank = out_features * in_features // ring.world
        self.shards = [
            torch.randn(per_rank, dtype=torch.float16, device=r.device) / in_features ** 0.5 for r in ring.ranks
        ]

    def __call__(self, xs):
        outs = []
        for x, full in zip(xs, self.ring(self.shards)):
            with torch.cuda.device(x.device):
                outs.append(x @ full.view(self.shape).t())
        return outs


class Stack:
    def __init__(self, world, features=4096, layers=8):
        self.ring = RingAllGather(world, features * features // world)
        self.layers = [ShardedLinear(self.ring, features, features) for _ in range(layers)]

    @torch.no_grad()
    def __call__(self, xs):
        for layer in self.layers:
            xs = [torch.relu(y) for y in layer(xs)]
        return xs


def main():
    world = torch.cuda.device_count()
    stack = Stack(world)
    xs = [torch.randn(8, 4096, dtype=torch.float16, device=f"cuda:{r}") for r in range(world)]
    for r in range(world):
        torch.cuda.synchronize(r)
    for _ in range(16):
        ys = stack(xs)
    print([float(y.float().mean()) for y in ys])


if __name__ == "__main__":
    main()
