import torch
import torch.distributed as dist


class CPUAdamShard:
    """fp32 master copy and moments of the local shard of one group, in host memory."""

    def __init__(self, numel, lr):
        self.grad = torch.zeros(numel, pin_memory=True)
        self.master = torch.zeros(numel)
        self.exp_avg = torch.zeros(numel)
        self.exp_avg_sq = torch.zeros(numel)
        self.lr = lr
        self.step_count = 0

    def step(self):
        self.step_count += 1
        self.exp_avg.mul_(0.9).add_(self.grad, alpha=0.1)
        self.exp_avg_sq.mul_(0.95).addcmul_(self.grad, self.grad, value=0.05)
        denom = (self.exp_avg_sq / (1 - 0.95**self.step_count)).sqrt_().add_(1e-8)
        self.master.addcdiv_(self.exp_avg, denom, value=-self.lr / (1 - 0.9**self.step_count))


class Streams:
    def __init__(self):
        self.reduce_scatter = torch.cuda.Stream(priority=-1)
        self.offload = torch.cuda.Stream()


class FSDPParamGroup:
    def __init__(self, module, group, streams, lr):
        self.module = module
        self.group = group
        self.streams = streams
        self.params = list(module.parameters())
        self.world = dist.get_world_size(group)
        numel = sum(p.numel() for p in self.params)
        self.padded = -(-numel // self.world) * self.world
        self.shard = CPUAdamShard(self.padded // self.world, lr)
        flat = torch.cat([p.detach().flatten().float() for p in self.params])
        flat = torch.nn.functional.pad(flat, (0, self.padded - numel))
        self.shard.master.copy_(flat.chunk(self.world)[dist.get_rank(group)])
        self.reduce_scatter_input = None
        self.offload_event = None

    def _copy_in(self):
        flat = torch.zeros(self.padded, dtype=torch.bfloat16, device="cuda")
        offset = 0
        for p in self.params:
            flat[offset : offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()
            p.grad = None
        return flat

    def post_backward(self):
        current = torch.cuda.current_stream()
        self.reduce_scatter_input = self._copy_in()
        rs, offload = self.streams.reduce_scatter, self.streams.offload
        rs.wait_stream(current)
        with torch.cuda.stream(rs):
            output = torch.empty(self.padded // self.world, dtype=torch.bfloat16, device="cuda")
            dist.reduce_scatter_tensor(
                output, self.reduce_scatter_input, op=dist.ReduceOp.AVG, group=self.group
            )
            output = output.float()
            reduced = rs.record_event()
        offload.wait_event(reduced)
        with torch.cuda.stream(offload):
            self.shard.grad.copy_(output, non_blocking=True)
            self.offload_event = offload.record_event()

    def finalize(self):
        torch.cuda.current_stream().wait_stream(self.streams.reduce_scatter)
        self.offload_event.synchronize()
        self.reduce_scatter_input = None

    @torch.no_grad()
    def update(self):
        self.shard.step()
        local = self.shard.master.pin_memory().to("cuda", torch.bfloat16, non_blocking=True)
        full = torch.empty(self.padded, dtype=torch.bfloat16, device="cuda")
        dist.all_gather_into_tensor(full, local, group=self.group)
        offset = 0
        for p in self.params:
            p.copy_(full[offset : offset + p.numel()].view_as(p))
            offset += p.numel()


def train(layers, loader, loss_fn, lr=1e-4):
    streams = Streams()
    groups = [FSDPParamGroup(layer, dist.group.WORLD, streams, lr) for layer in layers]
    for x, y in loader:
        inputs = [x.cuda().to(torch.bfloat16)]
        for layer in layers:
            inputs.append(layer(inputs[-1].detach().requires_grad_()))
        out = inputs[-1].detach().requires_grad_()
        loss_fn(out.float(), y.cuda()).backward()
        grad = out.grad
        for i in reversed(range(len(layers))):
            leaf = inputs[i].detach().requires_grad_()
            layers[i](leaf).backward(grad)
            grad = leaf.grad
            groups[i].post_backward()
        for group in groups:
            group.finalize()
            group.update()
