import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class ZeroOffloadOptimizer:
    """ZeRO-2 with gradients and fp32 state in host memory, communication overlapped with backward."""

    def __init__(self, params, group, bucket_numel=5_000_000, lr=1e-4):
        self.params = list(params)
        self.group = group
        self.world = dist.get_world_size(group)
        self.bucket_numel = bucket_numel
        self.reduction_stream = torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.bucket, self.bucket_size = [], 0
        self.in_flight = []
        self.fp32 = {p: p.detach().float().cpu() for p in self.params}
        self.cpu_grads = {p: torch.zeros(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params}
        self.cpu_optimizer = torch.optim.AdamW(list(self.fp32.values()), lr=lr)
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        self.bucket.append(param)
        self.bucket_size += param.numel()
        if self.bucket_size >= self.bucket_numel:
            self._reduce_bucket()

    def _reduce_bucket(self):
        if not self.bucket:
            return
        params, self.bucket, self.bucket_size = self.bucket, [], 0
        grads = [p.grad for p in params]
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            flat = _flatten_dense_tensors(grads)
            flat.div_(self.world)
            dist.all_reduce(flat, group=self.group)
            for g, reduced in zip(grads, _unflatten_dense_tensors(flat, grads)):
                g.copy_(reduced)
        self._offload(params)

    def _offload(self, params):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for p in params:
                self.cpu_grads[p].copy_(p.grad, non_blocking=True)
        self.in_flight.extend(params)

    def backward(self, loss):
        loss.backward()
        self._reduce_bucket()
        torch.cuda.synchronize()
        for p in self.in_flight:
            p.grad = None
        self.in_flight.clear()

    def step(self):
        for p in self.params:
            self.fp32[p].grad = self.cpu_grads[p].float()
        self.cpu_optimizer.step()
        for p in self.params:
            p.data.copy_(self.fp32[p])


def train(model, loader, steps):
    opt = ZeroOffloadOptimizer(model.parameters(), dist.group.WORLD)
    for _, (tokens, labels) in zip(range(steps), loader):
        loss = model(tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True))
        opt.backward(loss)
        opt.step()
