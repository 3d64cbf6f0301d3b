"""Sharded-weight inference: the weights of the next layer are gathered while this one computes."""
import os

import torch
import torch.distributed as dist


class ShardedLinear(torch.nn.Module):
    """Keeps 1/world of a square weight matrix, by rows."""

    def __init__(self, dim, group=None):
        super().__init__()
        self.dim = dim
        world = dist.get_world_size(group)
        assert dim % world == 0
        self.shard = torch.nn.Parameter(
            torch.randn(dim // world, dim) * dim**-0.5, requires_grad=False
        )


class GatherPipeline:
    """Two full-size buffers take turns; gathers are issued on a stream of their own."""

    def __init__(self, layers, group=None):
        self.layers = layers
        self.group = group
        dim = layers[0].dim
        device = layers[0].shard.device
        self.stream = torch.cuda.Stream(device)
        self.full = [torch.empty(dim, dim, device=device) for _ in range(2)]
        self.events = [None] * len(layers)

    def issue(self, index):
        if index >= len(self.layers):
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(
                self.full[index % 2], self.layers[index].shard, group=self.group
            )
            self.events[index] = self.stream.record_event()

    def close_pass(self):
        self.stream.wait_stream(torch.cuda.current_stream())

    def weight(self, index):
        torch.cuda.current_stream().wait_event(self.events[index])
        return self.full[index % 2]


class ShardedMLP(torch.nn.Module):
    def __init__(self, dim, depth, group=None):
        super().__init__()
        self.layers = torch.nn.ModuleList(ShardedLinear(dim, group) for _ in range(depth))
        self.group = group
        self._pipeline = None

    def pipeline(self):
        if self._pipeline is None:
            self._pipeline = GatherPipeline(list(self.layers), self.group)
        return self._pipeline

    @torch.no_grad()
    def forward(self, x):
        pipe = self.pipeline()
        pipe.issue(0)
        for index in range(len(self.layers)):
            weight = pipe.weight(index)
            pipe.issue(index + 1)
            x = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight)) + x
        pipe.close_pass()
        return x

    @torch.no_grad()
    def merge_delta(self, deltas, alpha=1.0):
        """Adds a low-rank update to every shard."""
        for layer, (up, down) in zip(self.layers, deltas):
            layer.shard.addmm_(up, down, alpha=alpha)


def main(dim=4096, depth=24):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    net = ShardedMLP(dim, depth).cuda()
    rows = dim // dist.get_world_size()
    x = torch.randn(512, dim, device="cuda")
    total = torch.zeros((), device="cuda")
    for step in range(20):
        total += net(x).norm()
        if step % 5 == 4:
            deltas = [
                (
                    torch.randn(rows, 8, device="cuda") * 1e-2,
                    torch.randn(8, dim, device="cuda") * 1e-2,
                )
                for _ in range(depth)
            ]
            net.merge_delta(deltas)
    print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
