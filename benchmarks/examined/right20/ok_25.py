import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        self.views = {}
        off = 0
        for p in params:
            self.views[p] = self.flat[off : off + p.numel()].view_as(p)
            off += p.numel()
        self.missing = len(params)
        self.done = torch.cuda.Event()


class BucketedDDP(nn.Module):
    def __init__(self, module, cap=1 << 16):
        super().__init__()
        self.module = module
        self.comm = torch.cuda.Stream()
        self.of = {}
        self.launched = {}
        current, size = [], 0
        for p in reversed(list(module.parameters())):
            current.append(p)
            size += p.numel()
            if size >= cap:
                self._close(current)
                current, size = [], 0
        if current:
            self._close(current)

    def _close(self, params):
        bucket = Bucket(params)
        for p in params:
            self.of[p] = bucket
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        bucket = self.of[p]
        bucket.views[p].copy_(p.grad)
        bucket.missing -= 1
        if bucket.missing == 0:
            self._launch(bucket)

    def _launch(self, bucket):
        self.comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm):
            bucket.flat.div_(dist.get_world_size())
            dist.all_reduce(bucket.flat)
            bucket.done.record(self.comm)
        self.launched[bucket] = bucket.done
        bucket.missing = len(bucket.params)

    def forward(self, x):
        return self.module(x)

    @torch.no_grad()
    def step(self, lr):
        here = torch.cuda.current_stream()
        for p in self.module.parameters():
            bucket = self.of[p]
            done = self.launched.pop(bucket, None)
            if done is not None:
                here.wait_event(done)
            p.sub_(bucket.views[p], alpha=lr)
            p.grad = None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(200, 200) for _ in range(6))).cuda()
    ddp = BucketedDDP(net)
    for _ in range(20):
        x = torch.randn(64, 200, device="cuda")
        loss = (ddp(x) - x).square().mean()
        loss.backward()
        ddp.step(0.1)
    print(dist.get_rank(), loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
