import queue
import threading

import torch


class CPUAdamWorker(threading.Thread):
    """Runs AdamW on host partitions as soon as their gradients are there."""

    def __init__(self, lr, betas=(0.9, 0.95), eps=1e-8):
        super().__init__(daemon=True)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.tasks = queue.Queue()
        self.results = queue.Queue()
        self.start()

    def run(self):
        while True:
            task = self.tasks.get()
            if task is None:
                return
            partition, ready = task
            ready.synchronize()
            self._adam(partition)
            self.results.put(partition)

    @torch.no_grad()
    def _adam(self, part):
        part.step += 1
        b1, b2 = self.betas
        part.exp_avg.lerp_(part.cpu_grad, 1 - b1)
        part.exp_avg_sq.mul_(b2).addcmul_(part.cpu_grad, part.cpu_grad, value=1 - b2)
        denom = (part.exp_avg_sq / (1 - b2**part.step)).sqrt_().add_(self.eps)
        part.master.addcdiv_(part.exp_avg, denom, value=-self.lr / (1 - b1**part.step))
        part.cpu_param.copy_(part.master)


class SubGroup:
    """Parameters that are stepped together; all host tensors are shared with the worker."""

    def __init__(self, params):
        self.params = params
        numel = sum(p.numel() for p in params)
        self.cpu_grad = torch.zeros(numel, pin_memory=True)
        self.cpu_param = torch.zeros(numel, dtype=params[0].dtype, pin_memory=True)
        self.master = torch.cat([p.detach().float().flatten().cpu() for p in params])
        self.exp_avg = torch.zeros(numel)
        self.exp_avg_sq = torch.zeros(numel)
        self.step = 0
        self.pending = len(params)


class SuperOffloadOptimizer:
    def __init__(self, params, lr, sub_group_numel):
        self.worker = CPUAdamWorker(lr)
        self.copy_stream = torch.cuda.Stream()
        self.sub_groups = []
        bucket, numel = [], 0
        for p in params:
            bucket.append(p)
            numel += p.numel()
            if numel >= sub_group_numel:
                self.sub_groups.append(SubGroup(bucket))
                bucket, numel = [], 0
        if bucket:
            self.sub_groups.append(SubGroup(bucket))
        for group in self.sub_groups:
            for p in group.params:
                p.register_post_accumulate_grad_hook(lambda _, g=group: self._grad_ready(g))

    def _grad_ready(self, group):
        group.pending -= 1
        if group.pending == 0:
            self._offload(group)

    def _offload(self, group):
        current = torch.cuda.current_stream()
        self.copy_stream.wait_stream(current)
        offset = 0
        with torch.cuda.stream(self.copy_stream):
            for p in group.params:
                grad = p.grad.float().flatten()
                group.cpu_grad[offset : offset + grad.numel()].copy_(grad, non_blocking=True)
                offset += grad.numel()
                p.grad.record_stream(self.copy_stream)
                p.grad = None
        ready = torch.cuda.Event()
        ready.record(current)
        self.worker.tasks.put((group, ready))

    @torch.no_grad()
    def step(self):
        for _ in self.sub_groups:
            group = self.worker.results.get()
            offset = 0
            for p in group.params:
                p.copy_(group.cpu_param[offset : offset + p.numel()].view_as(p), non_blocking=True)
                offset += p.numel()
            group.pending = len(group.params)


def train(model, loader, loss_fn, lr=1e-4, sub_group_numel=100_000_000):
    model = model.cuda().to(torch.bfloat16)
    optimizer = SuperOffloadOptimizer(list(model.parameters()), lr, sub_group_numel)
    for x, y in loader:
        loss_fn(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
