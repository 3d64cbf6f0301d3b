import torch
import torch.distributed as dist


class FSDPParamGroup:
    """Sharded parameters of one module; gradients are reduced on a stream of their own."""

    def __init__(self, module, group, reduce_stream):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.group = group
        self.world = dist.get_world_size(group)
        self.reduce_stream = reduce_stream
        self.post_reduce_event = None
        self.reduce_state = None
        numel = sum(p.numel() for p in self.params)
        self.padded = (numel + self.world - 1) // self.world * self.world
        self.sharded_grad = torch.zeros(self.padded // self.world, device=self.params[0].device)

    def post_backward(self):
        flat = torch.cat([p.grad.float().view(-1) for p in self.params])
        flat = torch.nn.functional.pad(flat, (0, self.padded - flat.numel()))
        for p in self.params:
            p.grad = None
        self.reduce_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduce_stream):
            out = torch.empty_like(self.sharded_grad)
            dist.reduce_scatter_tensor(out, flat, op=dist.ReduceOp.AVG, group=self.group)
            self.sharded_grad.add_(out)
            self.post_reduce_event = self.reduce_stream.record_event()
        self.reduce_state = (flat, out)

    def finalize_backward(self):
        if self.post_reduce_event is not None:
            torch.cuda.current_stream().wait_event(self.post_reduce_event)
            self.post_reduce_event = None
            self.reduce_state = None


class PipelineStage:
    def __init__(self, modules, dp_group, n_chunks):
        self.module = torch.nn.Sequential(*modules)
        self.n_chunks = n_chunks
        self.reduce_stream = torch.cuda.Stream(priority=-1)
        self.groups = [FSDPParamGroup(m, dp_group, self.reduce_stream) for m in modules]
        self.saved = {}

    def forward_one_chunk(self, chunk, x):
        x = x.detach().requires_grad_(True)
        out = self.module(x)
        self.saved[chunk] = (x, out)
        return out

    def _run_post_backward(self):
        for group in reversed(self.groups):
            group.post_backward()

    def backward_one_chunk(self, chunk, grad_output):
        x, out = self.saved.pop(chunk)
        torch.autograd.backward(out, grad_output)
        if chunk == self.n_chunks - 1:
            self._run_post_backward()
        return x.grad

    def clip_grad_norm(self, max_norm):
        norm = torch.stack([g.sharded_grad.norm() for g in self.groups]).norm()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for g in self.groups:
            g.sharded_grad.mul_(scale)
        return norm


def run_schedule(stage, recv_forward, send_backward, recv_grad, step_shards, max_norm=1.0):
    for chunk in range(stage.n_chunks):
        stage.forward_one_chunk(chunk, recv_forward(chunk))
    for chunk in range(stage.n_chunks):
        send_backward(chunk, stage.backward_one_chunk(chunk, recv_grad(chunk)))
    norm = stage.clip_grad_norm(max_norm)
    step_shards([g.sharded_grad for g in stage.groups])
    for g in stage.groups:
        g.sharded_grad.zero_()
    return norm
