"""Gradient buckets reduced while backward is running."""
import torch
import torch.distributed as dist


class GradBucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device="cuda")
        self.missing = len(params)

    def views(self):
        offset = 0
        for p in self.params:
            yield p, self.flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()


class OverlappedReducer:
    def __init__(self, module, cap=1 << 18):
        self.works = {}
        self.buckets = []
        group, size = [], 0
        for p in reversed(list(module.parameters())):
            group.append(p)
            size += p.numel()
            if size >= cap:
                self._add(group)
                group, size = [], 0
        if group:
            self._add(group)

    def _add(self, params):
        bucket = GradBucket(params)
        self.buckets.append(bucket)
        for p in params:
            p.register_post_accumulate_grad_hook(lambda _, b=bucket: self._ready(b))

    def _ready(self, bucket):
        bucket.missing -= 1
        if bucket.missing:
            return
        for p, view in bucket.views():
            view.copy_(p.grad)
        self.works[id(bucket)] = dist.all_reduce(
            bucket.flat, op=dist.ReduceOp.SUM, async_op=True
        )

    @torch.no_grad()
    def finish(self):
        for bucket in self.buckets:
            self.works.pop(id(bucket)).wait()
            bucket.missing = len(bucket.params)
            for p, view in bucket.views():
                torch.div(view, dist.get_world_size(), out=p.grad)


def main(steps=20):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)
    ).cuda()
    reducer = OverlappedReducer(net)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    loss = None
    try:
        for _ in range(steps):
            x = torch.randn(64, 512, device="cuda")
            loss = (net(x) - x).square().mean()
            loss.backward()
            reducer.finish()
            opt.step()
            opt.zero_grad(set_to_none=False)
        return loss.item()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    print(main())
