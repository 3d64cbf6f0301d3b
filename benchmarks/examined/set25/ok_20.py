import torch
import torch.nn as nn


class IPGBucket:
    def __init__(self, numel):
        self.data = torch.empty(numel, device="cuda")
        self.copied = torch.cuda.Event()
        self.pending = False
        self.fill = 0
        self.spans = []


class ZeroOffloadOptimizer:
    """Copies gradients to the host during backward and steps on host masters."""

    def __init__(self, model, lr, bucket_numel):
        self.params = [p for p in model.parameters()]
        self.copy_stream = torch.cuda.Stream()
        self.buckets = [IPGBucket(bucket_numel) for _ in range(2)]
        self.active = 0
        total = sum(p.numel() for p in self.params)
        self.host_grad = torch.zeros(total, pin_memory=True)
        self.host_param = torch.empty(total, pin_memory=True)
        self.offsets, offset = {}, 0
        for p in self.params:
            self.offsets[p] = offset
            self.host_param[offset : offset + p.numel()].copy_(p.detach().view(-1))
            offset += p.numel()
            p.register_post_accumulate_grad_hook(self._hook)
        self.momentum = torch.zeros(total)
        self.lr = lr
        self.copy_stream.wait_stream(torch.cuda.current_stream())

    def _hook(self, param):
        bucket = self.buckets[self.active]
        if bucket.fill + param.numel() > bucket.data.numel():
            self._flush(bucket)
            self.active = 1 - self.active
            bucket = self.buckets[self.active]
        if bucket.pending:
            torch.cuda.current_stream().wait_event(bucket.copied)
            bucket.pending = False
        bucket.data[bucket.fill : bucket.fill + param.numel()].copy_(param.grad.view(-1))
        bucket.spans.append((bucket.fill, self.offsets[param], param.numel()))
        bucket.fill += param.numel()
        param.grad = None

    def _flush(self, bucket):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for src, dst, n in bucket.spans:
                self.host_grad[dst : dst + n].copy_(bucket.data[src : src + n], non_blocking=True)
            bucket.copied.record(self.copy_stream)
        bucket.pending = True
        bucket.spans = []
        bucket.fill = 0

    @torch.no_grad()
    def step(self):
        self._flush(self.buckets[self.active])
        self.copy_stream.synchronize()
        torch.cuda.current_stream().synchronize()
        self.momentum.mul_(0.9).add_(self.host_grad)
        self.host_param.add_(self.momentum, alpha=-self.lr)
        for p in self.params:
            offset = self.offsets[p]
            p.view(-1).copy_(self.host_param[offset : offset + p.numel()], non_blocking=True)


def main():
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
    opt = ZeroOffloadOptimizer(model, 1e-3, 3 << 20)
    for step in range(40):
        x = torch.randn(256, 1024, device="cuda")
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
