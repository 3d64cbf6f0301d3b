"""Sequence-parallel ring exchange with two rotating buffers."""
import os

import torch
import torch.distributed as dist


class RingExchange:
    def __init__(self, template, group=None):
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.buffers = [torch.empty_like(template) for _ in range(2)]

    def _post(self, outgoing, incoming):
        ops = [
            dist.P2POp(dist.isend, outgoing, (self.rank + 1) % self.world, group=self.group),
            dist.P2POp(dist.irecv, incoming, (self.rank - 1) % self.world, group=self.group),
        ]
        return dist.batch_isend_irecv(ops)

    def rotate(self, block):
        """Yields the block of every rank, own block first."""
        self.buffers[0].copy_(block)
        for step in range(self.world):
            current = self.buffers[step % 2]
            upcoming = self.buffers[(step + 1) % 2]
            works = []
            if step + 1 < self.world:
                works = self._post(current, upcoming)
            try:
                yield (self.rank - step) % self.world, current
            finally:
                for work in works:
                    work.wait()


class PairwiseScores:
    def __init__(self, dim, tokens_per_rank):
        self.proj = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.exchange = RingExchange(torch.empty(tokens_per_rank, dim, device="cuda"))

    @torch.no_grad()
    def __call__(self, local):
        query = local @ self.proj
        best = torch.full((local.shape[0],), float("-inf"), device=local.device)
        owner = torch.full((local.shape[0],), -1, dtype=torch.long, device=local.device)
        for rank, block in self.exchange.rotate(local):
            score = (query @ block.t()).amax(dim=1)
            better = score > best
            best = torch.where(better, score, best)
            owner = torch.where(better, torch.full_like(owner, rank), owner)
        return best, owner


def main():
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    scorer = PairwiseScores(1024, 4096)
    for _ in range(10):
        best, owner = scorer(torch.randn(4096, 1024, device="cuda"))
    if dist.get_rank() == 0:
        print(best.mean().item(), owner.bincount(minlength=dist.get_world_size()).tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
