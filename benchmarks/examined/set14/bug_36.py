import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class ParamBucket:
    def __init__(self, size, group):
        self.size = size
        self.group = group
        self.params = []
        self.numel = 0
        self.flat = None
        self.commu_handle = None

    def is_full(self, param):
        return self.params and self.numel + param.numel() > self.size

    def add(self, param):
        self.params.append(param)
        self.numel += param.numel()

    def async_reduce(self, world_size):
        self.flat = _flatten_dense_tensors([p.grad for p in self.params])
        self.flat.div_(world_size)
        self.commu_handle = dist.all_reduce(self.flat, group=self.group, async_op=True)

    def unflatten_and_copy(self):
        grads = [p.grad for p in self.params]
        for old, new in zip(grads, _unflatten_dense_tensors(self.flat, grads)):
            old.copy_(new)

    def empty(self):
        self.params.clear()
        self.numel = 0
        self.flat = None
        self.commu_handle = None


class HybridZeroOptimizer:
    def __init__(self, optimizer, params, group=None, bucket_size=1 << 25, clip=1.0):
        self.optimizer = optimizer
        self.params = [p for p in params if p.requires_grad]
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.bucket_size = bucket_size
        self.clip = clip
        self._bucket = ParamBucket(bucket_size, group)
        self._bucket_in_progress = []
        for param in self.params:
            param.register_post_accumulate_grad_hook(self._store_and_try_reduce)

    def _store_and_try_reduce(self, param):
        if self._bucket.is_full(param):
            self._launch()
        self._bucket.add(param)

    def _launch(self):
        self._bucket.async_reduce(self.world_size)
        self._bucket_in_progress.append(self._bucket)
        self._bucket = ParamBucket(self.bucket_size, self.group)

    def backward(self, loss):
        loss.backward()
        if self._bucket.params:
            self._launch()

    def step(self):
        for bucket in self._bucket_in_progress:
            bucket.unflatten_and_copy()
            bucket.empty()
        self._bucket_in_progress = []
        norm = torch.nn.utils.clip_grad_norm_(self.params, self.clip)
        self.optimizer.step()
        return norm

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=False)


def train(model, loader, criterion, lr=1e-4):
    optimizer = HybridZeroOptimizer(torch.optim.AdamW(model.parameters(), lr=lr), model.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        optimizer.backward(loss)
        optimizer.step()
    return model
