from typing import List

import torch
import torch.distributed as dist


class GradientBucket:
    def __init__(self, numel, world_size, dtype, device):
        self.filled = 0
        self.grads = torch.zeros(numel, dtype=dtype, device=device)
        self.shard = torch.empty(numel // world_size, dtype=dtype, device=device)


class DistributedGradSync:
    def __init__(self, params, bucket_numel, rs_group, ar_group, num_streams=2):
        self.params = list(params)
        self.rs_group = rs_group
        self.ar_group = ar_group
        self.world_size = dist.get_world_size(rs_group)
        self.bucket_numel = bucket_numel - bucket_numel % self.world_size
        self.comm_streams = [torch.cuda.Stream() for _ in range(num_streams)]
        self.last_comm_stream = -1
        self.used = set()
        self.buckets: List[GradientBucket] = []

    def _new_bucket(self):
        p = self.params[0]
        bucket = GradientBucket(self.bucket_numel, self.world_size, p.dtype, p.device)
        self.buckets.append(bucket)
        return bucket

    def _start_bucket_sync(self, bucket):
        self.last_comm_stream = (self.last_comm_stream + 1) % len(self.comm_streams)
        stream = self.comm_streams[self.last_comm_stream]
        self.used.add(stream)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            bucket.grads.div_(self.world_size)
            dist.reduce_scatter_tensor(bucket.shard, bucket.grads, group=self.rs_group)
            dist.all_reduce(bucket.shard, group=self.ar_group)

    def add(self, grad):
        flat = grad.reshape(-1)
        while flat.numel():
            bucket = self.buckets[-1] if self.buckets else self._new_bucket()
            if bucket.filled == self.bucket_numel:
                bucket = self._new_bucket()
            n = min(flat.numel(), self.bucket_numel - bucket.filled)
            bucket.grads[bucket.filled : bucket.filled + n].copy_(flat[:n])
            bucket.filled += n
            flat = flat[n:]
            if bucket.filled == self.bucket_numel:
                self._start_bucket_sync(bucket)

    def finish(self):
        if self.buckets and self.buckets[-1].filled < self.bucket_numel:
            self._start_bucket_sync(self.buckets[-1])
        main = torch.cuda.current_stream()
        for stream in self.used:
            main.wait_stream(stream)
        self.used.clear()
        shards = [b.shard for b in self.buckets]
        self.buckets = []
        return shards


def grad_norm(sync, params):
    for p in params:
        sync.add(p.grad)
    return torch.stack([s.float().norm() for s in sync.finish()]).norm()
