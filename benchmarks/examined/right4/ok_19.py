from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


class HostBucket:
    def __init__(self, params):
        self.params = params

    def pull(self):
        return torch.cat([p.grad.reshape(-1) for p in self.params]).cpu()

    def push(self, flat):
        dev = flat.to(self.params[0].device)
        parts = dev.split([p.numel() for p in self.params])
        for p, part in zip(self.params, parts):
            p.grad.copy_(part.view_as(p.grad))


class GlooAverager:
    def __init__(self, params, group, bucket_numel=1 << 22):
        self.group = group
        self.buckets, run, size = [], [], 0
        for p in params:
            run.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(HostBucket(run))
                run, size = [], 0
        if run:
            self.buckets.append(HostBucket(run))
        self.pool = ThreadPoolExecutor(1)

    def _reduce(self, flat):
        dist.all_reduce(flat, group=self.group)
        return flat.div_(dist.get_world_size(self.group))

    def average(self):
        futures = [(b, self.pool.submit(self._reduce, b.pull())) for b in self.buckets]
        for bucket, future in futures:
            bucket.push(future.result())


def train(model, loader):
    dist.init_process_group("gloo")
    params = [p for p in model.parameters() if p.requires_grad]
    averager = GlooAverager(params, dist.group.WORLD)
    opt = torch.optim.AdamW(params)
    try:
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            averager.average()
            opt.step()
    finally:
        averager.pool.shutdown()
        dist.destroy_process_group()
