import torch
import torch.distributed as dist


class PlanPublisher:
    """Rank 0 decides which cache blocks move; all tensor-parallel ranks follow."""

    def __init__(self, group, max_blocks: int, device: torch.device):
        self.group = group
        self.device = device
        self.leader = dist.get_rank(group) == 0
        self.plan_stream = torch.cuda.Stream(device)
        self.plan_dev = torch.full((max_blocks, 2), -1, dtype=torch.int64, device=device)
        self.plan_host = torch.full((max_blocks, 2), -1, dtype=torch.int64, pin_memory=True)
        self.staged = torch.cuda.Event()

    def _stage(self, moves) -> None:
        self.staged.synchronize()
        self.plan_host.fill_(-1)
        for row, (src, dst) in enumerate(moves):
            self.plan_host[row, 0] = src
            self.plan_host[row, 1] = dst
        self.plan_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.plan_stream):
            self.plan_dev.copy_(self.plan_host, non_blocking=True)
            self.staged.record(self.plan_stream)

    def publish(self, moves=None) -> torch.Tensor:
        if self.leader:
            self._stage(moves or [])
        dist.broadcast(self.plan_dev, src=0, group=self.group)
        torch.cuda.current_stream(self.device).wait_stream(self.plan_stream)
        return self.plan_dev


class BlockMover:
    def __init__(self, group, num_blocks=4096, block_elems=8192, max_moves=256):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.cache = torch.zeros(num_blocks, block_elems, device=self.device, dtype=torch.bfloat16)
        self.publisher = PlanPublisher(group, max_moves, self.device)

    def apply(self, moves=None) -> None:
        plan = self.publisher.publish(moves)
        src = plan[:, 0].clamp_min(0)
        dst = torch.where(plan[:, 1] >= 0, plan[:, 1], src)
        self.cache.index_copy_(0, dst, self.cache.index_select(0, src))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    mover = BlockMover(dist.group.WORLD)
    for step in range(100):
        moves = [(i, i + 512 + step) for i in range(32)] if dist.get_rank() == 0 else None
        mover.apply(moves)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
