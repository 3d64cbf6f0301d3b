import torch
import torch.distributed as dist


class ReduceScatterPipeline:
    """Row-parallel linear whose reduce-scatter is pipelined with the matmul, tile by tile."""

    def __init__(self, tiles, num_streams, m, n, k, group):
        self.tiles = tiles
        self.group = group
        self.world = dist.get_world_size(group)
        assert m % (tiles * self.world) == 0
        self.tile_rows = m // tiles
        self.streams = [torch.cuda.Stream() for _ in range(num_streams)]
        self.unreduced = [
            torch.empty(self.tile_rows, n, dtype=torch.bfloat16, device="cuda")
            for _ in range(num_streams)
        ]
        self.weight = torch.randn(k, n, dtype=torch.bfloat16, device="cuda")
        self.done = [torch.cuda.Event() for _ in range(num_streams)]

    def forward(self, a):
        current = torch.cuda.current_stream()
        rows = self.tile_rows // self.world
        out = torch.empty(
            self.tiles, rows, self.weight.shape[1], dtype=a.dtype, device=a.device
        )
        ready = current.record_event()
        for stream in self.streams:
            stream.wait_event(ready)
        tiles = a.view(self.tiles, self.tile_rows, -1)
        works = []
        for j in range(self.tiles):
            slot = j % len(self.streams)
            with torch.cuda.stream(self.streams[slot]):
                if j >= len(self.streams):
                    works[j - len(self.streams)].wait()
                torch.matmul(tiles[j], self.weight, out=self.unreduced[slot])
                works.append(
                    dist.reduce_scatter_tensor(
                        out[j], self.unreduced[slot], group=self.group, async_op=True
                    )
                )
        for j in range(max(0, self.tiles - len(self.streams)), self.tiles):
            slot = j % len(self.streams)
            with torch.cuda.stream(self.streams[slot]):
                works[j].wait()
                self.done[slot].record()
        for j in range(max(0, self.tiles - len(self.streams)), self.tiles):
            current.wait_event(self.done[j % len(self.streams)])
        return out.view(-1, out.shape[-1])


class SequenceParallelMLP:
    def __init__(self, tokens, hidden, ffn, group, tiles=8, num_streams=3):
        self.group = group
        self.world = dist.get_world_size(group)
        self.up = torch.randn(hidden, ffn // self.world, dtype=torch.bfloat16, device="cuda")
        self.down = ReduceScatterPipeline(tiles, num_streams, tokens, hidden, ffn // self.world, group)

    @torch.no_grad()
    def forward(self, x_shard):
        x = torch.empty(
            x_shard.shape[0] * self.world, x_shard.shape[1], dtype=x_shard.dtype, device=x_shard.device
        )
        dist.all_gather_into_tensor(x, x_shard, group=self.group)
        return self.down.forward(torch.nn.functional.gelu(x @ self.up))


def benchmark(tokens=16384, hidden=8192, ffn=28672, iters=20):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    world = dist.get_world_size()
    mlp = SequenceParallelMLP(tokens, hidden, ffn, dist.group.WORLD)
    x = torch.randn(tokens // world, hidden, dtype=torch.bfloat16, device="cuda")
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(iters):
        y = mlp.forward(x)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / iters, y.float().norm().item()
