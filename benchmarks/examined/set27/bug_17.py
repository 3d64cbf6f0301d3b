from collections import deque

import torch


class ParamBucketIterator:
    """Groups the parameters of a model into update buckets."""

    def __init__(self, model, bucket_bytes):
        self.model = model
        self.bucket_bytes = bucket_bytes

    def __iter__(self):
        bucket, size = [], 0
        for name, p in self.model.named_parameters():
            bucket.append((name, p))
            size += p.numel() * p.element_size()
            if size >= self.bucket_bytes:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket


class FlattenedBucket:
    """All tensors of a bucket in one device buffer."""

    def __init__(self, named_tensors, dtype):
        self.meta = [(name, t.shape, t.numel()) for name, t in named_tensors]
        self.flat = torch.cat([t.detach().reshape(-1).to("cuda", dtype, non_blocking=True) for _, t in named_tensors])

    def views(self):
        offset = 0
        for name, shape, numel in self.meta:
            yield name, self.flat[offset : offset + numel].view(shape)
            offset += numel


class RolloutEngine:
    def __init__(self, model):
        self.model = model
        self.params = dict(model.named_parameters())

    @torch.no_grad()
    def update_weights_from_bucket(self, bucket):
        for name, value in bucket.views():
            self.params[name].copy_(value)


class PipelinedWeightUpdater:
    """Gathers the next buckets on a stream of their own while earlier ones are loaded."""

    def __init__(self, train_model, engines, window=4, bucket_bytes=512 << 20, dtype=torch.bfloat16):
        self.buckets = ParamBucketIterator(train_model, bucket_bytes)
        self.engines = engines
        self.window = window
        self.dtype = dtype
        self.prefetch_stream = torch.cuda.Stream()

    def _prefetch(self, bucket):
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.prefetch_stream):
            flattened = FlattenedBucket(bucket, self.dtype)
        self.prefetch_stream.wait_stream(current)
        flattened.flat.record_stream(current)
        return flattened

    def update_weights(self):
        in_flight = deque()
        self.prefetch_stream.wait_stream(torch.cuda.current_stream())
        for bucket in self.buckets:
            in_flight.append(self._prefetch(bucket))
            if len(in_flight) >= self.window:
                self._load(in_flight.popleft())
        while in_flight:
            self._load(in_flight.popleft())
        torch.cuda.current_stream().wait_stream(self.prefetch_stream)

    def _load(self, flattened):
        for engine in self.engines:
            engine.update_weights_from_bucket(flattened)


def rl_loop(trainer, rollout_models, prompts, steps):
    engines = [RolloutEngine(m) for m in rollout_models]
    updater = PipelinedWeightUpdater(trainer.model, engines)
    for _ in range(steps):
        samples = [engine.model.generate(p) for engine, p in zip(engines, prompts)]
        trainer.train_on(samples)
        updater.update_weights()
