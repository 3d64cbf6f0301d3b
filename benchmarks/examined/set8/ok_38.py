import torch


class PartitionedParam:

    def __init__(self, shard):
        self.shape = shard.shape
        self.gpu = shard
        self.cpu = torch.empty(shard.numel(), dtype=shard.dtype, pin_memory=True)


class ParamSwapper:
    """Moves partitions between GPU and pinned host memory on the current stream."""

    def __init__(self, device):
        self.device = device
        self.stats = {"in": 0, "out": 0}

    def partition_to_cpu(self, param):
        param.cpu.copy_(param.gpu.view(-1), non_blocking=True)
        param.gpu = None
        self.stats["out"] += param.cpu.numel()

    def fetch(self, param):
        if param.gpu is None:
            param.gpu = param.cpu.to(self.device, non_blocking=True).view(param.shape)
            self.stats["in"] += param.cpu.numel()
        return param.gpu

    def requantize(self, param, scale):
        self.partition_to_cpu(param)
        fresh = param.cpu.to(self.device, non_blocking=True)
        fresh.mul_(scale).round_().div_(scale)
        param.gpu = fresh.view(param.shape)


class OffloadedStack(torch.nn.Module):

    def __init__(self, shards, device):
        super().__init__()
        self.params = [PartitionedParam(s) for s in shards]
        self.swapper = ParamSwapper(device)
        for p in self.params:
            self.swapper.partition_to_cpu(p)

    @torch.no_grad()
    def forward(self, x):
        for p in self.params:
            w = self.swapper.fetch(p)
            x = torch.relu(x @ w.t())
            self.swapper.partition_to_cpu(p)
        return x

    @torch.no_grad()
    def quantize_(self, scale=127.0):
        for p in self.params:
            self.swapper.fetch(p)
            self.swapper.requantize(p, scale)
            self.swapper.partition_to_cpu(p)

    def checkpoint(self, path):
        torch.cuda.synchronize(self.swapper.device)
        torch.save({str(i): p.cpu.clone() for i, p in enumerate(self.params)}, path)


def build(dims, device="cuda"):
    shards = [torch.randn(o, i, device=device) * 0.02 for i, o in zip(dims, dims[1:])]
    return OffloadedStack(shards, torch.device(device))
