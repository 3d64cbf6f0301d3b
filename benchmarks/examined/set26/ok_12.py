import queue

import torch


class Channel:
    def __init__(self, maxsize):
        self._q = queue.Queue(maxsize)

    def put(self, item):
        self._q.put(item)

    def get(self):
        return self._q.get()


class BucketWeightSyncer:
    """Sends actor weights to the rollout in packed host buckets."""

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
        weight.record_stream(self.copy_stream)
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


class Rollout:
    def __init__(self, model, channel):
        self.model = model.to("cuda", torch.bfloat16)
        self.channel = channel

    @torch.no_grad()
    def receive(self):
        params = dict(self.model.named_parameters())
        while True:
            version, bucket = self.channel.get()
            if bucket is None:
                return version
            for name, host in bucket.items():
                params[name].copy_(host, non_blocking=True)


def run(make_model, batches, optimizer_cls=torch.optim.AdamW):
    actor = make_model().cuda()
    channel = Channel(maxsize=1024)
    syncer = BucketWeightSyncer(channel)
    rollout = Rollout(make_model(), channel)
    optim = optimizer_cls(actor.parameters(), lr=1e-5)
    for version, batch in enumerate(batches):
        actor(batch.cuda()).pow(2).mean().backward()
        optim.step()
        optim.zero_grad()
        syncer.sync(actor, version)
        rollout.receive()
