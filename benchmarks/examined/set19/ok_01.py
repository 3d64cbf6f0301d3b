"""ZeRO-1/2 style gradient reduction with two contiguous buckets that are reused alternately."""
import torch
import torch.distributed as dist


class IPGBuffer:
    def __init__(self, numel, dtype, device):
        self.data = torch.empty(numel, dtype=dtype, device=device)
        self.reduced = None

    def wait_until_free(self, stream):
        if self.reduced is not None:
            stream.wait_event(self.reduced)
            self.reduced = None


class IPGBucket:
    def __init__(self, numel, dtype, device):
        self.buffers = [IPGBuffer(numel, dtype, device) for _ in range(2)]
        self.index = 0
        self.offset = 0
        self.params = []
        self.copy_streams = set()

    @property
    def active(self):
        return self.buffers[self.index]

    def flip(self):
        self.index ^= 1
        self.offset = 0
        self.params = []
        self.copy_streams = set()


class GradientReducer:
    def __init__(self, params, bucket_numel, group=None):
        self.params = list(params)
        device = self.params[0].device
        self.group = group
        self.world = dist.get_world_size(group)
        self.bucket_numel = bucket_numel
        self.bucket = IPGBucket(bucket_numel, self.params[0].dtype, device)
        self.reduction_stream = torch.cuda.Stream(device=device)
        self.averaged = {
            p: torch.zeros(p.numel(), dtype=torch.float32, device=device) for p in self.params
        }
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        if self.bucket.offset + param.numel() > self.bucket_numel:
            self._reduce_bucket()
        stream = torch.cuda.current_stream()
        buf = self.bucket.active
        if self.bucket.offset == 0:
            buf.wait_until_free(stream)
        dst = buf.data.narrow(0, self.bucket.offset, param.numel())
        dst.copy_(param.grad.view(-1))
        self.bucket.params.append((param, self.bucket.offset))
        self.bucket.offset += param.numel()
        self.bucket.copy_streams.add(stream)
        param.grad = None

    def _reduce_bucket(self):
        if not self.bucket.params:
            return
        buf = self.bucket.active
        for stream in self.bucket.copy_streams:
            self.reduction_stream.wait_stream(stream)
        flat = buf.data.narrow(0, 0, self.bucket.offset)
        with torch.cuda.stream(self.reduction_stream):
            flat.div_(self.world)
            dist.all_reduce(flat, group=self.group)
            for param, offset in self.bucket.params:
                self.averaged[param].add_(flat.narrow(0, offset, param.numel()))
            buf.reduced = self.reduction_stream.record_event()
        self.bucket.flip()

    def epilogue(self):
        self._reduce_bucket()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)

    def zero(self):
        for acc in self.averaged.values():
            acc.zero_()
        self.reduction_stream.wait_stream(torch.cuda.current_stream())


def train(model, loader, loss_fn, lr):
    reducer = GradientReducer(model.parameters(), bucket_numel=1 << 24)
    for x, y in loader:
        loss_fn(model(x.cuda()), y.cuda()).backward()
        reducer.epilogue()
        with torch.no_grad():
            for p in reducer.params:
                p.add_(reducer.averaged[p].view_as(p).to(p.dtype), alpha=-lr)
        reducer.zero()
