"""Collective-op check for per-parameter sharding: shard, all-gather, reshard to a smaller group, all-gather again."""
from typing import NamedTuple

import torch
import torch.distributed as dist


class AllGatherResult(NamedTuple):
    output: torch.Tensor
    event: torch.cuda.Event
    numels: list


class ShardedParam:
    def __init__(self, full, rank, world):
        self.orig = full
        self.padded = -(-full.shape[0] // world) * world
        buf = full.new_zeros((self.padded, *full.shape[1:]))
        buf[: full.shape[0]].copy_(full)
        self.shard = buf.chunk(world)[rank].clone()
        self.post_forward_shard = None
        self.unsharded = None

    def all_gather_input(self):
        src = self.shard if self.post_forward_shard is None else self.post_forward_shard
        return src.reshape(-1)

    def init_unsharded(self, flat):
        self.unsharded = flat.view(self.padded, *self.orig.shape[1:])[: self.orig.shape[0]]

    def to_sharded_post_forward(self, rank, size):
        rows = self.padded // size
        full = self.unsharded.new_zeros((self.padded, *self.orig.shape[1:]))
        full[: self.orig.shape[0]].copy_(self.unsharded)
        self.post_forward_shard = full[rank * rows : (rank + 1) * rows].clone()


def foreach_all_gather(params, group, copy_in_stream, all_gather_stream):
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    with torch.cuda.stream(copy_in_stream):
        inputs = [p.all_gather_input() for p in params]
        numels = [t.numel() for t in inputs]
        total = sum(numels)
        output = torch.empty(total * world, dtype=inputs[0].dtype, device=inputs[0].device)
        shard = output.narrow(0, total * rank, total)
        torch._foreach_copy_(list(torch.split(shard, numels)), inputs)
    all_gather_stream.wait_stream(copy_in_stream)
    with torch.cuda.stream(all_gather_stream):
        dist.all_gather_into_tensor(output, shard, group=group)
        event = all_gather_stream.record_event()
    return AllGatherResult(output, event, numels)


def foreach_all_gather_copy_out(result, params, world):
    current = torch.cuda.current_stream()
    current.wait_event(result.event)
    result.output.record_stream(current)
    rows = result.output.view(world, -1)
    for p, col in zip(params, torch.split(rows, result.numels, dim=1)):
        p.init_unsharded(col.reshape(-1))


class CollectiveOpsCheck:
    def __init__(self, shapes, post_forward_size):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        gen = torch.Generator(device="cuda").manual_seed(42)
        self.full = [torch.randn(s, device="cuda", generator=gen) for s in shapes]
        self.params = [ShardedParam(f, self.rank, self.world) for f in self.full]
        self.size = post_forward_size
        self.copy_in_stream = torch.cuda.Stream()
        self.all_gather_stream = torch.cuda.Stream()

    def _gather(self, group):
        result = foreach_all_gather(self.params, group, self.copy_in_stream, self.all_gather_stream)
        foreach_all_gather_copy_out(result, self.params, dist.get_world_size(group))

    def _assert_equal(self):
        for p, f in zip(self.params, self.full):
            torch.testing.assert_close(p.unsharded, f)

    def run(self):
        torch.cuda.synchronize()
        self._gather(dist.group.WORLD)
        self._assert_equal()
        sub, _ = dist.new_subgroups(self.size)
        for p in self.params:
            p.to_sharded_post_forward(dist.get_rank(sub), self.size)
        self._gather(sub)
        self._assert_equal()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    CollectiveOpsCheck([(24, 24), (25, 10), (1,)], post_forward_size=8).run()
    dist.destroy_process_group()
