import queue

import torch


class Channel:
    """In-process channel between the actor and the rollout worker."""

    def __init__(self, maxsize=2):
        self._q = queue.Queue(maxsize)

    def put(self, item):
        self._q.put(item)

    def get(self):
        return self._q.get()


class BucketWeightSyncer:
    """Sends actor weights to the rollout in host buckets."""

    def __init__(self, channel, bucket_bytes=256 << 20, dtype=torch.bfloat16):
        self.channel = channel
        self.bucket_bytes = bucket_bytes
        self.dtype = dtype
        self.copy_stream = torch.cuda.Stream()

    def _offload(self, weight):
        host = torch.empty(weight.shape, dtype=weight.dtype, pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host.copy_(weight, non_blocking=True)
        return host

    def _flush(self, bucket, version):
        self.copy_stream.synchronize()
        self.channel.put((version, dict(bucket)))
        bucket.clear()

    @torch.no_grad()
    def sync(self, model, version):
        bucket, size = {}, 0
        for name, param in model.named_parameters():
            weight = param.detach().to(self.dtype)
            bucket[name] = self._offload(weight)
            size += weight.numel() * weight.element_size()
            if size >= self.bucket_bytes:
                self._flush(bucket, version)
                size = 0
        if bucket:
            self._flush(bucket, version)
        self.channel.put((version, None))


class Actor:
    def __init__(self, hidden=4096, layers=24):
        self.model = torch.nn.Sequential(
            *[torch.nn.Linear(hidden, hidden) for _ in range(layers)]
        ).cuda()
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        self.channel = Channel(maxsize=64)
        self.syncer = BucketWeightSyncer(self.channel)

    def train(self, batches):
        for version, batch in enumerate(batches):
            loss = self.model(batch.cuda()).pow(2).mean()
            loss.backward()
            self.optim.step()
            self.optim.zero_grad()
            self.syncer.sync(self.model, version)
