import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatParamHandle:
    """One flattened parameter with its gradient shard."""

    def __init__(self, numel, world, device):
        numel = (numel + world - 1) // world * world
        self.flat = nn.Parameter(torch.randn(numel, device=device) * 0.02)
        self.saved_grad_shard = torch.zeros(numel // world, device=device)
        self.outputs = []


class FullyShardedModule(nn.Module):
    def __init__(self, dim, depth, group):
        super().__init__()
        self.group = group
        self.world = dist.get_world_size(group)
        self.dim = dim
        self.post_backward_stream = torch.cuda.Stream()
        self.handles = [FlatParamHandle(2 * dim * dim, self.world, "cuda") for _ in range(depth)]
        self.flats = nn.ParameterList(h.flat for h in self.handles)
        for handle in self.handles:
            handle.flat.register_post_accumulate_grad_hook(self._make_hook(handle))

    def _make_hook(self, handle):
        def post_backward_hook(param):
            grad = param.grad.data
            self.post_backward_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.post_backward_stream):
                grad.div_(self.world)
                output = torch.zeros_like(handle.saved_grad_shard)
                dist.reduce_scatter_tensor(output, grad, group=self.group)
                handle.saved_grad_shard.add_(output)
            grad.record_stream(self.post_backward_stream)

        return post_backward_hook

    def forward(self, x):
        n = self.dim * self.dim
        for handle in self.handles:
            w1 = handle.flat[:n].view(self.dim, self.dim)
            w2 = handle.flat[n : 2 * n].view(self.dim, self.dim)
            x = x + torch.relu(x @ w1) @ w2
        return x

    def wait_for_post_backward(self):
        torch.cuda.current_stream().wait_stream(self.post_backward_stream)
        for handle in self.handles:
            handle.flat.grad = None


def train_step(model, micro_batches):
    for mb in micro_batches:
        loss = model(mb).square().mean()
        loss.backward()
    model.wait_for_post_backward()
    norms = torch.stack([h.saved_grad_shard.norm() for h in model.handles])
    for h in model.handles:
        h.saved_grad_shard.zero_()
    model.post_backward_stream.wait_stream(torch.cuda.current_stream())
    return norms.norm()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = FullyShardedModule(1024, 8, dist.group.WORLD)
    for step in range(10):
        batches = [torch.randn(64, 1024, device="cuda") for _ in range(4)]
        norm = train_step(model, batches)
        if dist.get_rank() == 0:
            print(step, norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
