import functools

import torch
import torch.distributed as dist

LOW_PRECISION = (torch.float16, torch.bfloat16)


def _needs_upcast(tensor):
    return tensor.is_cuda and tensor.dtype in LOW_PRECISION


class Fp32Collectives:
    """Runs the reductions of low-precision tensors in float32."""

    def all_reduce(self, tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        if not _needs_upcast(tensor):
            return dist.all_reduce(tensor, op, group, async_op)
        buf = tensor.float()
        work = dist.all_reduce(buf, op, group, async_op)
        tensor.copy_(buf)
        return work

    def reduce_scatter(self, output, input, op=dist.ReduceOp.SUM, group=None, async_op=False):
        if not _needs_upcast(input):
            return dist.reduce_scatter_tensor(output, input, op, group, async_op)
        out = torch.empty_like(output, dtype=torch.float32)
        work = dist.reduce_scatter_tensor(out, input.float(), op, group, async_op)
        if work is not None:
            work.wait()
        output.copy_(out)
        return work


class GradReducer:
    """Reduces gradient buckets while the backward is still running."""

    def __init__(self, params, comm, group, bucket_numel):
        self.comm = comm
        self.group = group
        self.world = dist.get_world_size(group)
        self.buckets = []
        self.works = []
        current, numel = [], 0
        for p in reversed(params):
            current.append(p)
            numel += p.numel()
            if numel >= bucket_numel:
                self.buckets.append(current)
                current, numel = [], 0
        if current:
            self.buckets.append(current)
        self.pending = {}
        for i, bucket in enumerate(self.buckets):
            self.pending[i] = len(bucket)
            for p in bucket:
                p.register_post_accumulate_grad_hook(functools.partial(self._hook, i))

    def _hook(self, i, _param):
        self.pending[i] -= 1
        if self.pending[i]:
            return
        flat = torch.cat([p.grad.reshape(-1) for p in self.buckets[i]]).div_(self.world)
        work = self.comm.all_reduce(flat, group=self.group, async_op=True)
        self.works.append((i, flat, work))

    def finish(self):
        for i, flat, work in self.works:
            work.wait()
            offset = 0
            for p in self.buckets[i]:
                p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
                offset += p.numel()
            self.pending[i] = len(self.buckets[i])
        self.works.clear()


def grad_norm(params):
    return torch.stack([p.grad.float().norm() for p in params]).norm()


def train(model, loader, optimizer, loss_fn, clip=1.0):
    model = model.cuda().to(torch.bfloat16)
    params = [p for p in model.parameters() if p.requires_grad]
    reducer = GradReducer(params, Fp32Collectives(), dist.group.WORLD, 25_000_000)
    for x, y in loader:
        loss_fn(model(x.cuda()), y.cuda()).backward()
        reducer.finish()
        scale = (clip / (grad_norm(params) + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([p.grad for p in params], scale)
        optimizer.step()
        optimizer.zero_grad()
