import torch
import torch.distributed as dist
import torch.nn.functional as F


class GatherBufferCache:
    def __init__(self):
        self._buffers = {}

    def get(self, shape, dtype, parity):
        key = (tuple(shape), dtype, parity)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(shape, dtype=dtype, device="cuda")
        return self._buffers[key]


class GTPWeight:
    def __init__(self, index, rows, cols, group, cache, stream):
        self.parity = index % 2
        self.group = group
        self.cache = cache
        self.stream = stream
        world = dist.get_world_size(group)
        self.shape = (rows, cols)
        self.shard = torch.randn(rows // world, cols, device="cuda").to(torch.bfloat16)
        self.next_weight = None
        self.ready = torch.cuda.Event()
        self.full = None

    def prefetch(self):
        self.full = self.cache.get(self.shape, torch.bfloat16, self.parity)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(self.full, self.shard, group=self.group)
            self.ready.record(self.stream)

    def consume(self):
        if self.full is None:
            self.prefetch()
        self.ready.wait(torch.cuda.current_stream())
        weight, self.full = self.full, None
        if self.next_weight is not None:
            self.next_weight.prefetch()
        return weight


class GTPStack:
    """A chain of equally shaped layers whose weights are gathered one ahead."""

    def __init__(self, hidden, layers, group):
        cache = GatherBufferCache()
        stream = torch.cuda.Stream()
        self.weights = [GTPWeight(i, hidden, hidden, group, cache, stream) for i in range(layers)]
        for a, b in zip(self.weights, self.weights[1:]):
            a.next_weight = b

    @torch.no_grad()
    def forward(self, x):
        for w in self.weights:
            x = F.gelu(F.linear(x, w.consume()))
        return x


def evaluate(loader, hidden=8192, layers=24):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    stack = GTPStack(hidden, layers, dist.group.WORLD)
    norms = []
    for x in loader:
        norms.append(stack.forward(x.cuda().to(torch.bfloat16)).float().norm())
    return torch.stack(norms).cpu()
