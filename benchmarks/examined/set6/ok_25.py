from typing import Dict

import torch
import torch.distributed as dist


class StreamPool:
    def __init__(self):
        self._streams: Dict[int, torch.cuda.Stream] = {}

    def get(self, index: int) -> torch.cuda.Stream:
        if index not in self._streams:
            self._streams[index] = torch.cuda.Stream()
        return self._streams[index]


class AllGatherMatmul:
    """Column parallel linear whose input exchange is pipelined with the matmuls."""

    def __init__(self, group: dist.ProcessGroup):
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.stream_pool = StreamPool()

    def _exchange(self, shard: torch.Tensor, buffer: torch.Tensor, distance: int) -> None:
        dst = dist.get_global_rank(self.group, (self.rank - distance + self.size) % self.size)
        src = dist.get_global_rank(self.group, (self.rank + distance) % self.size)
        reqs = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, shard, dst, group=self.group),
                dist.P2POp(dist.irecv, buffer, src, group=self.group),
            ]
        )
        for req in reqs:
            req.wait()

    def __call__(self, inp_shard: torch.Tensor, weight_shard: torch.Tensor) -> torch.Tensor:
        main_stream = torch.cuda.current_stream()
        rows = inp_shard.size(0)
        out = torch.empty(
            self.size * rows, weight_shard.size(0), dtype=inp_shard.dtype, device=inp_shard.device
        )
        out_chunks = out.chunk(self.size)

        worker_streams = []
        for i in range(self.size):
            worker_stream = self.stream_pool.get(i)
            worker_streams.append(worker_stream)
            worker_stream.wait_stream(main_stream)
            with torch.cuda.stream(worker_stream):
                if i == 0:
                    buffer = inp_shard
                else:
                    buffer = torch.empty_like(inp_shard)
                    self._exchange(inp_shard, buffer, i)
                torch.matmul(buffer, weight_shard.t(), out=out_chunks[(self.rank + i) % self.size])

        for worker_stream in worker_streams:
            main_stream.wait_stream(worker_stream)
        return out


class SequenceParallelMLP(torch.nn.Module):
    def __init__(self, dim: int, hidden_per_rank: int, group):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(hidden_per_rank, dim) * dim**-0.5)
        self.down = torch.nn.Parameter(torch.randn(dim, hidden_per_rank) * hidden_per_rank**-0.5)
        self.gather_matmul = AllGatherMatmul(group)
        self.group = group

    @torch.no_grad()
    def forward(self, x_shard: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.gather_matmul(x_shard, self.up))
        full = hidden @ self.down.t()
        out = torch.empty_like(x_shard)
        dist.reduce_scatter_tensor(out, full, group=self.group)
        return out
