"""Frozen sharded vision tower: storage of gathered weights is released after each layer."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def alloc_storage(tensor, numel):
    tensor.untyped_storage().resize_(numel * tensor.element_size())


def free_storage(tensor):
    tensor.untyped_storage().resize_(0)


class FlatParamHandle:
    def __init__(self, width, unshard_stream):
        self.width = width
        self.unshard_stream = unshard_stream
        self.local_shard = torch.empty(width * width // dist.get_world_size(), device="cuda").normal_(std=0.01)
        self.flat_param = torch.empty(0, device="cuda")
        self.event = None

    def unshard(self):
        with torch.cuda.stream(self.unshard_stream):
            self.flat_param = torch.empty(self.width * self.width, device="cuda")
            dist.all_gather_into_tensor(self.flat_param, self.local_shard)
            self.event = self.unshard_stream.record_event()

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)

    def reshard(self):
        free_storage(self.flat_param)


class Tower:
    def __init__(self, depth, width):
        self.stream = torch.cuda.Stream(priority=-1)
        self.handles = [FlatParamHandle(width, self.stream) for _ in range(depth)]
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def forward(self, x):
        order = iter(self.handles[1:])
        self.handles[0].unshard()
        for handle in self.handles:
            upcoming = next(order, None)
            if upcoming is not None:
                upcoming.unshard()
            handle.wait()
            x = F.gelu(x @ handle.flat_param.view(handle.width, handle.width))
            handle.reshard()
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    tower = Tower(depth=32, width=3072)
    head = nn.Linear(3072, 1000).cuda()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(500):
        images = torch.randn(1024, 3072, device="cuda")
        labels = torch.randint(0, 1000, (1024,), device="cuda")
        loss = F.cross_entropy(head(tower.forward(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
