"""Parameter buckets gathered ahead of time; their storage is resized to zero after use."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def _alloc_storage(tensor, numel):
    nbytes = numel * tensor.element_size()
    if tensor.untyped_storage().size() != nbytes:
        tensor.untyped_storage().resize_(nbytes)


def _free_storage(tensor):
    if tensor.untyped_storage().size() > 0:
        tensor.untyped_storage().resize_(0)


class StorageResizeBasedBucketAllocator:
    """Keeps one tensor object per bucket and changes the size of its storage."""

    def __init__(self, dtype, device):
        self.dtype = dtype
        self.device = device
        self.buckets = {}

    def allocate(self, bucket_id, numel):
        if bucket_id not in self.buckets:
            self.buckets[bucket_id] = torch.empty(numel, dtype=self.dtype, device=self.device)
        else:
            _alloc_storage(self.buckets[bucket_id], numel)
        return self.buckets[bucket_id]

    def free(self, bucket_id):
        if bucket_id in self.buckets:
            _free_storage(self.buckets[bucket_id])


class AllGatherPipeline:
    def __init__(self, shards, allocator, group):
        self.shards = shards
        self.allocator = allocator
        self.group = group
        self.world = dist.get_world_size(group)
        self.param_gather_stream = torch.cuda.Stream()
        self.param_gather_stream.wait_stream(torch.cuda.current_stream())
        self.ready = {}

    def async_bucket_gather(self, bucket_id):
        if bucket_id >= len(self.shards) or bucket_id in self.ready:
            return
        shard = self.shards[bucket_id]
        with torch.cuda.stream(self.param_gather_stream):
            bucket = self.allocator.allocate(bucket_id, shard.numel() * self.world)
            dist.all_gather_into_tensor(bucket, shard, group=self.group)
            event = torch.cuda.Event()
            event.record()
        self.ready[bucket_id] = event

    def wait_bucket_ready(self, bucket_id):
        torch.cuda.current_stream().wait_event(self.ready[bucket_id])
        return self.allocator.buckets[bucket_id]

    def release_bucket(self, bucket_id):
        self.allocator.free(bucket_id)
        del self.ready[bucket_id]


class FsdpMlp(nn.Module):
    def __init__(self, depth, width, hidden, group=None):
        super().__init__()
        group = group or dist.group.WORLD
        self.depth, self.width, self.hidden = depth, width, hidden
        device = torch.device("cuda", torch.cuda.current_device())
        world = dist.get_world_size(group)
        numel = 2 * width * hidden
        assert numel % world == 0
        shards = [torch.randn(numel // world, device=device, dtype=torch.bfloat16) * 0.02 for _ in range(depth)]
        self.pipeline = AllGatherPipeline(shards, StorageResizeBasedBucketAllocator(torch.bfloat16, device), group)

    @torch.no_grad()
    def forward(self, x):
        self.pipeline.async_bucket_gather(0)
        for i in range(self.depth):
            self.pipeline.async_bucket_gather(i + 1)
            flat = self.pipeline.wait_bucket_ready(i)
            up = flat[: self.width * self.hidden].view(self.hidden, self.width)
            down = flat[self.width * self.hidden :].view(self.width, self.hidden)
            x = x + F.linear(F.silu(F.linear(x, up)), down)
            self.pipeline.release_bucket(i)
        return x


def main(depth=32, width=4096, hidden=16384, iters=10):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = FsdpMlp(depth, width, hidden)
    x = torch.randn(8192, width, dtype=torch.bfloat16, device="cuda")
    for _ in range(iters):
        y = model(x)
    print(y.float().abs().mean().item())
