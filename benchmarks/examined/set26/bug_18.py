import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class TensorBucket:
    def __init__(self, size):
        self.max_size = size
        self.params = []
        self.numel = 0

    def add(self, param):
        self.params.append(param)
        self.numel += param.numel()

    def full(self):
        return self.numel >= self.max_size

    def empty(self):
        params, self.params, self.numel = self.params, [], 0
        return params


class LowLevelZeroOptimizer:
    """Gradient reduction by buckets, overlapped with the backward pass."""

    def __init__(self, params, lr, bucket_size=1 << 22, overlap_communication=True, clip=1.0):
        self.params = [p for p in params if p.requires_grad]
        self.lr = lr
        self.clip = clip
        self.overlap = overlap_communication
        self.bucket = TensorBucket(bucket_size)
        self.world = dist.get_world_size()
        self.comm_stream = torch.cuda.Stream() if overlap_communication else None
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._grad_handler)

    def _grad_handler(self, param):
        self.bucket.add(param)
        if self.bucket.full():
            self._reduce_bucket()

    def _reduce_bucket(self):
        params = self.bucket.empty()
        if not params:
            return
        current = torch.cuda.current_stream()
        stream = self.comm_stream if self.overlap else current
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            grads = [p.grad for p in params]
            flat = _flatten_dense_tensors(grads)
            dist.all_reduce(flat)
            flat.div_(self.world)
            for grad, synced in zip(grads, _unflatten_dense_tensors(flat, grads)):
                grad.copy_(synced)

    def _grad_norm(self):
        return torch.stack([p.grad.norm() for p in self.params]).norm()

    @torch.no_grad()
    def step(self):
        self._reduce_bucket()
        scale = (self.clip / (self._grad_norm() + 1e-6)).clamp(max=1.0)
        for p in self.params:
            p.sub_(self.lr * scale * p.grad)

    @torch.no_grad()
    def zero_grad(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()


def main(model, loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = model.cuda()
    optim = LowLevelZeroOptimizer(model.parameters(), 1e-3)
    for x, y in loader:
        optim.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optim.step()
        torch.cuda.synchronize()
