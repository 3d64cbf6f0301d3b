import torch
import torch.distributed as dist
from torch import nn


class ParamGroupBuffers:
    """Gradient accumulator (inner shard) and the outer-reduced copy of one layer."""

    def __init__(self, module: nn.Module, inner_size: int):
        self.params = list(module.parameters())
        numel = sum(p.numel() for p in self.params)
        self.padded = (numel + inner_size - 1) // inner_size * inner_size
        device = self.params[0].device
        self.main_grad = torch.zeros(self.padded // inner_size, device=device)
        self.outer_grad = torch.zeros_like(self.main_grad)
        self.outer_read = torch.cuda.Event()
        self.outer_done = torch.cuda.Event()

    def flat_grad(self) -> torch.Tensor:
        flat = torch.cat([p.grad.reshape(-1) for p in self.params])
        return nn.functional.pad(flat, (0, self.padded - flat.numel()))


class HierarchicalReducer:
    def __init__(self, layers, inner_group, outer_group):
        self.inner_group, self.outer_group = inner_group, outer_group
        self.inner_size = dist.get_world_size(inner_group)
        self.scale = 1.0 / dist.get_world_size()
        self.buffers = [ParamGroupBuffers(layer, self.inner_size) for layer in layers]
        self.rs_stream = torch.cuda.Stream()
        self.outer_stream = torch.cuda.Stream()
        self.step_done = torch.cuda.Event()
        for stream in (self.rs_stream, self.outer_stream):
            stream.wait_stream(torch.cuda.current_stream())

    def reduce_inner(self, index: int, last_microbatch: bool):
        buf = self.buffers[index]
        flat = buf.flat_grad()
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            shard = torch.empty_like(buf.main_grad)
            dist.reduce_scatter_tensor(shard, flat, group=self.inner_group)
            buf.main_grad.add_(shard, alpha=self.scale)
            flat.record_stream(self.rs_stream)
        for p in buf.params:
            p.grad = None
        if last_microbatch:
            self.reduce_outer(buf)

    def reduce_outer(self, buf: ParamGroupBuffers):
        self.outer_stream.wait_stream(self.rs_stream)
        with torch.cuda.stream(self.outer_stream):
            self.outer_stream.wait_event(self.step_done)
            buf.outer_grad.copy_(buf.main_grad)
            buf.outer_read.record(self.outer_stream)
            dist.all_reduce(buf.outer_grad, group=self.outer_group)
            buf.outer_done.record(self.outer_stream)

    def zero_grad(self):
        with torch.cuda.stream(self.rs_stream):
            for buf in self.buffers:
                self.rs_stream.wait_event(buf.outer_read)
                buf.main_grad.zero_()

    @torch.no_grad()
    def step(self, lr: float):
        current = torch.cuda.current_stream()
        for buf in self.buffers:
            current.wait_event(buf.outer_done)
            full = torch.empty(buf.padded, device=buf.outer_grad.device)
            dist.all_gather_into_tensor(full, buf.outer_grad, group=self.inner_group)
            offset = 0
            for p in buf.params:
                p.sub_(full[offset:offset + p.numel()].view_as(p), alpha=lr)
                offset += p.numel()
        self.step_done.record(current)
        self.zero_grad()


def train(rank, world, steps=20, microbatches=4, dim=1024, depth=8):
    layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth)).cuda()
    for p in layers.parameters():
        dist.broadcast(p.data, src=0)
    half = max(1, world // 2)
    inner = outer = None
    for lo in range(0, world, half):
        group = dist.new_group(list(range(lo, lo + half)))
        inner = group if lo <= rank < lo + half else inner
    for r in range(half):
        group = dist.new_group(list(range(r, world, half)))
        outer = group if rank % half == r else outer
    reducer = HierarchicalReducer(layers, inner, outer)

    for _ in range(steps):
        for m in range(microbatches):
            acts = [torch.randn(64, dim, device="cuda")]
            for layer in layers:
                acts.append(torch.tanh(layer(acts[-1].detach().requires_grad_())))
            grad = acts[-1].detach()
            for i in reversed(range(depth)):
                acts[i + 1].backward(grad)
                grad = acts[i].detach() - acts[i + 1].detach()
                reducer.reduce_inner(i, last_microbatch=m == microbatches - 1)
        reducer.step(lr=1e-3)
    torch.cuda.synchronize()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    train(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
