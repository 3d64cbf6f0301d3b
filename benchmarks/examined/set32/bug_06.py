"""Low-level ZeRO style gradient reduction with a communication stream."""
import os

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class GradBucket:
    def __init__(self):
        self.params = []
        self.numel = 0

    def add(self, param):
        self.params.append(param)
        self.numel += param.numel()

    def pop(self):
        params, self.params, self.numel = self.params, [], 0
        return params


class BucketReducer:
    """Averages gradients over the data-parallel group while backward is running."""

    def __init__(self, module, bucket_numel=1 << 22, overlap=True, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.bucket_numel = bucket_numel
        self.overlap = overlap
        self.bucket = GradBucket()
        self.comm_stream = torch.cuda.Stream() if overlap else None
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, param):
        self.bucket.add(param)
        if self.bucket.numel >= self.bucket_numel:
            self._run_reduction()

    def _run_reduction(self):
        params = self.bucket.pop()
        if not params:
            return
        grads = [p.grad for p in params]
        flat = _flatten_dense_tensors(grads)
        flat.div_(self.world)
        if self.overlap:
            stream = self.comm_stream
            flat.record_stream(stream)
        else:
            stream = torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            dist.all_reduce(flat, group=self.group)
            for grad, synced in zip(grads, _unflatten_dense_tensors(flat, grads)):
                grad.copy_(synced)
                if self.overlap:
                    grad.record_stream(stream)

    def finalize(self):
        self._run_reduction()
        if self.overlap:
            torch.cuda.current_stream().wait_stream(self.comm_stream)


class ZeroOptimizer:
    def __init__(self, module, optim, **kwargs):
        self.optim = optim
        self.reducer = BucketReducer(module, **kwargs)

    def backward(self, loss):
        loss.backward()
        self.reducer.finalize()

    def step(self):
        self.optim.step()
        self.optim.zero_grad(set_to_none=True)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU()) for _ in range(16)]
    ).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    opt = ZeroOptimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    for _ in range(200):
        x = torch.randn(64, 2048, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.backward(loss)
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
