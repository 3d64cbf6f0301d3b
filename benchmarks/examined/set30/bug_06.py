"""All-reduce of GPU gradients through gloo: staged in page-locked memory, bucket by bucket."""
import torch
import torch.distributed as dist


class HostBucket:
    def __init__(self, numel, dtype):
        self.host = torch.empty(numel, dtype=dtype, pin_memory=True)
        self.copied = torch.cuda.Event()
        self.params = []

    def views(self):
        offset = 0
        for param in self.params:
            n = param.numel()
            yield param, self.host[offset:offset + n].view_as(param)
            offset += n


class HostAllReduceWork:
    """Mirrors the Work interface; ``wait`` runs the CPU collective and uploads the result."""

    def __init__(self, bucket, stream, group):
        self.bucket = bucket
        self.stream = stream
        self.group = group
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for param, view in bucket.views():
                view.copy_(param.grad, non_blocking=True)
                param.grad.record_stream(self.stream)
            bucket.copied.record(self.stream)

    def synchronize(self):
        torch.cuda.current_stream().wait_event(self.bucket.copied)

    def wait(self):
        self.synchronize()
        dist.all_reduce(self.bucket.host, group=self.group)
        self.bucket.host.div_(dist.get_world_size(self.group))
        for param, view in self.bucket.views():
            param.grad.copy_(view, non_blocking=True)


class HostReducer:
    def __init__(self, params, bucket_numel=1 << 22, group=None):
        self.group = group
        self.stream = torch.cuda.Stream()
        self.buckets = []
        pending, size = [], 0
        for param in reversed(list(params)):
            pending.append(param)
            size += param.numel()
            if size >= bucket_numel:
                self._close(pending, size)
                pending, size = [], 0
        if pending:
            self._close(pending, size)

    def _close(self, params, size):
        bucket = HostBucket(size, params[0].dtype)
        bucket.params = list(params)
        self.buckets.append(bucket)

    @torch.no_grad()
    def reduce(self):
        works = [HostAllReduceWork(b, self.stream, self.group) for b in self.buckets]
        for work in works:
            work.wait()
        torch.cuda.current_stream().synchronize()


def train(model, loader, optimizer, loss_fn):
    dist.init_process_group("gloo")
    model.cuda()
    reducer = HostReducer(model.parameters())
    for inputs, target in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(inputs.cuda(non_blocking=True)), target.cuda(non_blocking=True))
        loss.backward()
        reducer.reduce()
        optimizer.step()
    dist.destroy_process_group()
