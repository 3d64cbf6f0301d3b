import torch
import torch.distributed as dist


class GradientBucket:
    def __init__(self, numel, world_size, device):
        self.grads_bucket = torch.zeros(numel, device=device)
        self.grads_shard = torch.zeros(numel // world_size, device=device)
        self.sync_request = None


class DistributedFusedAdam:
    """Adam with state sharded over the data-parallel group."""

    def __init__(self, params, group=None, lr=1e-3, betas=(0.9, 0.95), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.group = group
        self.rank = dist.get_rank(group)
        self.world_size = dist.get_world_size(group)
        self.lr, self.betas, self.eps = lr, betas, eps
        device = self.params[0].device
        total = sum(p.numel() for p in self.params)
        self.numel = (total + self.world_size - 1) // self.world_size * self.world_size
        self.bucket = GradientBucket(self.numel, self.world_size, device)
        self.flat = torch.zeros(self.numel, device=device)
        offset = 0
        for p in self.params:
            view = self.flat[offset : offset + p.numel()]
            view.copy_(p.data.view(-1))
            p.data = view.view_as(p)
            p.grad = self.bucket.grads_bucket[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        shard = self.numel // self.world_size
        self.local = self.flat[self.rank * shard : (self.rank + 1) * shard]
        self.exp_avg = torch.zeros_like(self.local)
        self.exp_avg_sq = torch.zeros_like(self.local)
        self.steps = 0
        self._pipeline_stream = torch.cuda.Stream(device)

    def start_grad_sync(self):
        stream = self._pipeline_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.bucket.sync_request = dist.reduce_scatter_tensor(
                self.bucket.grads_shard,
                self.bucket.grads_bucket,
                op=dist.ReduceOp.AVG,
                group=self.group,
                async_op=True,
            )

    def _finish_grad_sync(self):
        with torch.cuda.stream(self._pipeline_stream):
            if self.bucket.sync_request is not None:
                self.bucket.sync_request.wait()
                self.bucket.sync_request = None

    @torch.no_grad()
    def step(self):
        self._finish_grad_sync()
        self.steps += 1
        grad = self.bucket.grads_shard
        b1, b2 = self.betas
        self.exp_avg.lerp_(grad, 1 - b1)
        self.exp_avg_sq.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        denom = (self.exp_avg_sq / (1 - b2**self.steps)).sqrt_().add_(self.eps)
        self.local.addcdiv_(self.exp_avg / (1 - b1**self.steps), denom, value=-self.lr)
        dist.all_gather_into_tensor(self.flat, self.local.clone(), group=self.group)

    def zero_grad(self):
        self.bucket.grads_bucket.zero_()


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.start_grad_sync()
    optimizer.step()
    return loss.detach()
