"""Gathers sharded layer weights on a communication stream, one layer ahead."""
import os

import torch
import torch.distributed as dist


class ShardedStack:
    def __init__(self, layers, width, device):
        self.device = device
        self.width = width
        self.world = dist.get_world_size()
        numel = width * width
        if numel % self.world:
            raise ValueError("weights do not divide over the ranks")
        self.comm = torch.cuda.Stream(device)
        self.shards = [torch.randn(numel // self.world, device=device) / width ** 0.5
                       for _ in range(layers)]
        self._full = {}

    def _gather(self, i):
        with torch.cuda.stream(self.comm):
            full = torch.empty(self.width * self.width, device=self.device)
            dist.all_gather_into_tensor(full, self.shards[i])
            self._full[i] = (full, self.comm.record_event())

    def _free(self, i):
        full, _ = self._full.pop(i)
        full.record_stream(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def forward(self, x):
        current = torch.cuda.current_stream(self.device)
        self.comm.wait_stream(current)
        try:
            for i in range(len(self.shards)):
                if i not in self._full:
                    self._gather(i)
                if i + 1 < len(self.shards):
                    self._gather(i + 1)
                full, gathered = self._full[i]
                current.wait_event(gathered)
                x = torch.relu(x @ full.view(self.width, self.width))
                self._free(i)
        finally:
            current.wait_stream(self.comm)
            for i in list(self._full):
                self._free(i)
        return x

    @torch.no_grad()
    def scale_(self, factor):
        for shard in self.shards:
            shard.mul_(factor)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    torch.manual_seed(rank)
    stack = ShardedStack(6, 1024, device)
    for _ in range(5):
        y = stack.forward(torch.randn(32, 1024, device=device))
        stack.scale_(0.9)
        if rank == 0:
            print(y.mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
