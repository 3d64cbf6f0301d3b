import torch
import torch.distributed as dist


class CommContext:
    """Streams and carried state shared by all parameter groups."""

    def __init__(self, device):
        self.all_gather_stream = torch.cuda.Stream(device)
        self.reduce_scatter_stream = torch.cuda.Stream(device)
        self.rs_state = None


class ParamGroup:
    def __init__(self, weight, ctx, device):
        self.ctx = ctx
        self.device = device
        self.world = dist.get_world_size()
        self.shard = weight.chunk(self.world)[dist.get_rank()].clone().contiguous()
        self.grad_shard = torch.zeros_like(self.shard)
        self.full_shape = weight.shape
        self._pending = None

    def unshard(self):
        ctx = self.ctx
        ctx.all_gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(ctx.all_gather_stream):
            full = torch.empty(self.full_shape, dtype=self.shard.dtype, device=self.device)
            dist.all_gather_into_tensor(full, self.shard)
            event = ctx.all_gather_stream.record_event()
        self._pending = (full, event)

    def wait_for_unshard(self):
        full, event = self._pending
        torch.cuda.current_stream().wait_event(event)
        self._pending = None
        return full

    def reduce(self, grad):
        ctx = self.ctx
        current = torch.cuda.current_stream()
        if ctx.rs_state is not None:
            _, event = ctx.rs_state
            current.wait_event(event)
            ctx.rs_state = None
        ctx.reduce_scatter_stream.wait_stream(current)
        with torch.cuda.stream(ctx.reduce_scatter_stream):
            out = torch.empty_like(self.shard)
            dist.reduce_scatter_tensor(out, grad)
            self.grad_shard.add_(out, alpha=1.0 / self.world)
            event = ctx.reduce_scatter_stream.record_event()
        ctx.rs_state = (grad, event)


@torch.no_grad()
def train_step(groups, x, target, lr):
    acts = []
    groups[0].unshard()
    for i, group in enumerate(groups):
        w = group.wait_for_unshard()
        if i + 1 < len(groups):
            groups[i + 1].unshard()
        acts.append((x, w.clone()))
        x = x @ w
        del w
    grad_x = (x - target) / x.shape[0]
    for group, (inp, w) in zip(reversed(groups), reversed(acts)):
        grad_w = inp.t() @ grad_x
        grad_x = grad_x @ w.t()
        group.reduce(grad_w)
        del grad_w
    ctx = groups[0].ctx
    if ctx.rs_state is not None:
        torch.cuda.current_stream().wait_event(ctx.rs_state[1])
        ctx.rs_state = None
    for group in groups:
        group.shard.add_(group.grad_shard, alpha=-lr)
        group.grad_shard.zero_()
    ctx.reduce_scatter_stream.wait_stream(torch.cuda.current_stream())
