import contextlib

import torch
import torch.distributed as dist


class Pending:
    def __init__(self, params):
        self.params = params
        self.flat = torch.cat([p.grad.reshape(-1) for p in params])
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish(self):
        self.work.wait()
        self.flat.div_(dist.get_world_size())
        off = 0
        for p in self.params:
            n = p.grad.numel()
            p.grad.copy_(self.flat[off:off + n].view_as(p.grad))
            off += n


class BucketReducer:
    def __init__(self, model, bucket_numel=1 << 20):
        self.bucket_numel = bucket_numel
        self.enabled = False
        self.current, self.size = [], 0
        self.pending = []
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        if not self.enabled:
            return
        self.current.append(p)
        self.size += p.numel()
        if self.size >= self.bucket_numel:
            self._launch()

    def _launch(self):
        if self.current:
            self.pending.append(Pending(self.current))
            self.current, self.size = [], 0

    @contextlib.contextmanager
    def reducing(self):
        self.enabled = True
        try:
            yield self
        finally:
            self.enabled = False
            self._launch()
            while self.pending:
                self.pending.pop(0).finish()


def train(model, loader, accum=2):
    reducer = BucketReducer(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()) / accum
        if (i + 1) % accum:
            loss.backward()
            continue
        with reducer.reducing():
            loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).cuda()
    train(model, loader)
    torch.cuda.synchronize()
    dist.destroy_process_group()
