import torch
import torch.distributed as dist


class GradBucket:
    """A flat buffer that is reduced when all its gradients were copied in."""

    def __init__(self, params, group, comm_stream):
        self.group = group
        self.comm_stream = comm_stream
        self.offsets = {}
        total = 0
        for p in params:
            self.offsets[p] = total
            total += p.numel()
        self.buffer = torch.zeros(total, device="cuda")
        self.copy_done = torch.cuda.Event()
        self.reset()

    def reset(self):
        self.pending = len(self.offsets)

    def push(self, param, grad):
        start = self.offsets[param]
        self.buffer[start:start + grad.numel()].copy_(grad.reshape(-1))
        self.pending -= 1
        if self.pending == 0:
            self.copy_done.record()
            self._launch()

    def _launch(self):
        self.comm_stream.wait_event(self.copy_done)
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(self.buffer, group=self.group)
            self.buffer.div_(dist.get_world_size(self.group))

    def view(self, param):
        start = self.offsets[param]
        return self.buffer[start:start + param.numel()].view_as(param)


class TwoTowerTrainer:
    def __init__(self, query, item, lr):
        self.towers = [query.cuda(), item.cuda()]
        self.streams = [torch.cuda.Stream() for _ in self.towers]
        self.params = [p for t in self.towers for p in t.parameters()]
        self.comm_stream = torch.cuda.Stream()
        self.bucket = GradBucket(self.params, dist.group.WORLD, self.comm_stream)
        self.lr = lr

    def step(self, inputs, targets):
        main = torch.cuda.current_stream()
        self.bucket.reset()
        for tower, stream, x, y in zip(self.towers, self.streams, inputs, targets):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                loss = torch.nn.functional.mse_loss(tower(x), y)
                params = list(tower.parameters())
                for p, g in zip(params, torch.autograd.grad(loss, params)):
                    self.bucket.push(p, g)
        for stream in self.streams:
            main.wait_stream(stream)
        main.wait_stream(self.comm_stream)
        with torch.no_grad():
            for p in self.params:
                p.sub_(self.bucket.view(p), alpha=self.lr)


def main(query, item, loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    trainer = TwoTowerTrainer(query, item, 1e-3)
    for q, qy, i, iy in loader:
        batch = [t.cuda() for t in (q, qy, i, iy)]
        trainer.step((batch[0], batch[2]), (batch[1], batch[3]))
        torch.cuda.current_stream().synchronize()
