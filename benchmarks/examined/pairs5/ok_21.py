"""Tensor-parallel matmul: shards pulled from symmetric memory of the peers, then multiplied."""
import os
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


class SymmAllGatherMatmul:
    def __init__(self, rows, dim, group):
        self.group = group
        self.rows, self.dim = rows, dim
        self.shard = symm_mem.empty(rows, dim, device="cuda")
        self.handle = symm_mem.rendezvous(self.shard, group)
        self.world = self.handle.world_size
        self.full = torch.empty(rows * self.world, dim, device="cuda")
        self.pull = torch.cuda.Stream()

    def __call__(self, x, weight):
        main = torch.cuda.current_stream()
        self.shard.copy_(x)
        self.handle.barrier(channel=0)
        self.pull.wait_stream(main)
        chunks = self.full.chunk(self.world)
        outs = [None] * self.world
        for step in range(self.world):
            src = (self.handle.rank + step) % self.world
            with torch.cuda.stream(self.pull):
                remote = self.handle.get_buffer(src, (self.rows, self.dim), torch.float32)
                chunks[src].copy_(remote)
                arrived = self.pull.record_event()
            main.wait_event(arrived)
            outs[src] = chunks[src] @ weight
        self.handle.barrier(channel=1)
        return torch.cat(outs)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    op = SymmAllGatherMatmul(1024, 2048, dist.group.WORLD)
    weight = torch.randn(2048, 512, device="cuda")
    for _ in range(20):
        y = op(torch.randn(1024, 2048, device="cuda"), weight)
    torch.cuda.synchronize()
    print(dist.get_rank(), y.abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
