import queue
import threading

import torch


class Bucket:
    def __init__(self, params):
        self.params = params
        n = sum(p.numel() for p in params)
        self.grad = torch.empty(n, pin_memory=True)
        self.master = torch.cat([p.detach().float().cpu().view(-1) for p in params]).pin_memory()
        self.exp_avg = torch.zeros(n)
        self.exp_avg_sq = torch.zeros(n)
        self.copied = torch.cuda.Event()

    def slices(self):
        off = 0
        for p in self.params:
            yield p, slice(off, off + p.numel())
            off += p.numel()


class HostAdam(threading.Thread):
    def __init__(self, lr=1e-3, betas=(0.9, 0.95), eps=1e-8):
        super().__init__(daemon=True)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.inbox = queue.Queue()
        self.outbox = queue.Queue()

    def run(self):
        while True:
            bucket = self.inbox.get()
            if bucket is None:
                return
            bucket.copied.synchronize()
            b1, b2 = self.betas
            bucket.exp_avg.mul_(b1).add_(bucket.grad, alpha=1 - b1)
            bucket.exp_avg_sq.mul_(b2).addcmul_(bucket.grad, bucket.grad, value=1 - b2)
            bucket.master.addcdiv_(bucket.exp_avg, bucket.exp_avg_sq.sqrt().add_(self.eps), value=-self.lr)
            self.outbox.put(bucket)


class OffloadedOptimizer:
    def __init__(self, groups):
        self.buckets = [Bucket(g) for g in groups]
        self.d2h = torch.cuda.Stream()
        self.worker = HostAdam()
        self.worker.start()

    def _download(self, bucket):
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            for p, sl in bucket.slices():
                bucket.grad[sl].copy_(p.grad.view(-1), non_blocking=True)
                p.grad.record_stream(self.d2h)
            bucket.copied.record()

    def step(self):
        for bucket in self.buckets:
            self._download(bucket)
            self.worker.inbox.put(bucket)
        for _ in self.buckets:
            bucket = self.worker.outbox.get()
            for p, sl in bucket.slices():
                p.data.view(-1).copy_(bucket.master[sl], non_blocking=True)
                p.grad = None

    def close(self):
        self.worker.inbox.put(None)
        self.worker.join()
        torch.cuda.synchronize()


def train(model, loader):
    params = list(model.parameters())
    half = len(params) // 2
    opt = OffloadedOptimizer([params[:half], params[half:]])
    try:
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
            loss.backward()
            opt.step()
    finally:
        opt.close()
