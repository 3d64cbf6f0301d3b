"""Bucketed gradient reduction with two buffers which alternate between fill and reduction."""
import torch
import torch.distributed as dist
from torch import nn


class PingPongBucket:
    def __init__(self, numel, device):
        self.buffers = [torch.zeros(numel, device=device) for _ in range(2)]
        self.drained = [torch.cuda.Event() for _ in range(2)]
        self.active = 0
        self.offset = 0
        self.entries = []

    @property
    def buffer(self):
        return self.buffers[self.active]

    def room_for(self, n):
        return self.offset + n <= self.buffer.numel()


class OverlappedReducer:
    """Averages gradients while backward goes on."""

    def __init__(self, module, bucket_numel=8_000_000, group=None):
        self.module = module
        self.group = group
        self.world = dist.get_world_size(group)
        params = [p for p in module.parameters() if p.requires_grad]
        self.device = params[0].device
        self.reduction = torch.cuda.Stream(self.device)
        self.bucket = PingPongBucket(max(bucket_numel, max(p.numel() for p in params)), self.device)
        torch.cuda.synchronize(self.device)
        self.producers = set()
        for p in params:
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        bucket = self.bucket
        if not bucket.room_for(p.numel()):
            self._flush()
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(bucket.drained[bucket.active])
        view = bucket.buffer[bucket.offset : bucket.offset + p.numel()]
        view.copy_(p.grad.reshape(-1))
        self.producers.add(stream)
        bucket.entries.append((p, bucket.offset))
        bucket.offset += p.numel()

    def _flush(self):
        bucket = self.bucket
        if not bucket.entries:
            return
        for stream in self.producers:
            self.reduction.wait_stream(stream)
        with torch.cuda.stream(self.reduction):
            used = bucket.buffer[: bucket.offset]
            used.div_(self.world)
            dist.all_reduce(used, group=self.group)
            for p, offset in bucket.entries:
                p.grad.copy_(used[offset : offset + p.numel()].view_as(p))
                p.grad.record_stream(self.reduction)
            bucket.drained[bucket.active].record()
        bucket.entries = []
        bucket.offset = 0
        bucket.active ^= 1
        self.producers.clear()

    def backward(self, loss):
        loss.backward()
        self._flush()
        torch.cuda.current_stream(self.device).wait_stream(self.reduction)


def train(local_rank, batches, dim=1024):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(8)]).cuda()
    reducer = OverlappedReducer(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        reducer.backward(nn.functional.mse_loss(model(x.cuda()), y.cuda()))
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]
