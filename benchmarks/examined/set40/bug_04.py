"""Bucketed gradient averaging with the reduction overlapped on its own stream (ZeRO-2 like)."""
import torch
import torch.nn as nn


class Partition:
    """Flat fp32 accumulator this rank owns, filled bucket by bucket."""

    def __init__(self, numel, device):
        self.flat = torch.zeros(numel, device=device)
        self.cursor = 0

    def window(self, n):
        out = self.flat[self.cursor:self.cursor + n]
        self.cursor += n
        return out

    def restart(self):
        self.cursor = 0


class BucketReducer:
    def __init__(self, params, bucket_elems, grad_divisor):
        self.params = list(params)
        self.bucket_elems = bucket_elems
        self.grad_divisor = grad_divisor
        device = self.params[0].device
        self.partition = Partition(sum(p.numel() for p in self.params), device)
        self.reduction_stream = torch.cuda.Stream(device=device)
        self.pending = []
        self.pending_elems = 0

    def add(self, p):
        self.pending.append(p)
        self.pending_elems += p.numel()
        if self.pending_elems >= self.bucket_elems:
            self.flush()

    def flush(self):
        if not self.pending:
            return
        bucket, self.pending, self.pending_elems = self.pending, [], 0
        self._average(bucket)
        for p in bucket:
            p.grad = None

    def _average(self, bucket):
        flat = torch.cat([p.grad.reshape(-1) for p in bucket])
        dest = self.partition.window(flat.numel())
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            flat.div_(self.grad_divisor)
            dest.add_(flat)

    def finish(self):
        self.flush()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        self.partition.restart()


class FlatSGD:
    def __init__(self, params, partition, lr):
        self.params, self.partition, self.lr = list(params), partition, lr

    @torch.no_grad()
    def step(self):
        offset = 0
        for p in reversed(self.params):
            n = p.numel()
            p.add_(self.partition.flat[offset:offset + n].view_as(p), alpha=-self.lr)
            offset += n
        self.partition.flat.zero_()


def build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=False), nn.SiLU()]
    return nn.Sequential(*layers).cuda()


def main(steps=12, width=2048, depth=16, accumulate=4):
    torch.manual_seed(0)
    model = build(width, depth)
    params = list(model.parameters())
    reducer = BucketReducer(params, bucket_elems=2 * width * width, grad_divisor=float(accumulate))
    optim = FlatSGD(params, reducer.partition, lr=1e-2)
    x = torch.randn(2048, width, device="cuda")
    for step in range(steps):
        for _ in range(accumulate):
            model(x).square().mean().backward()
            for p in reversed(params):
                reducer.add(p)
            reducer.finish()
        optim.step()
    torch.cuda.synchronize()
    print("weight norm", float(sum(p.norm() for p in params)))


if __name__ == "__main__":
    main()
