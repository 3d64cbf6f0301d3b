"""Receives weights bucket by bucket over broadcast and loads them into an inference engine's parameters."""
import os
import torch
import torch.distributed as dist
from torch import nn


class Engine:
    """Owns serving parameters; weights are loaded on the engine's stream."""

    def __init__(self, net):
        self.net = net
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def load(self, named):
        with torch.cuda.stream(self.stream):
            params = dict(self.net.named_parameters())
            for name, value in named:
                params[name].copy_(value)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class WeightChannel:
    def __init__(self, layout, limit):
        self.layout = list(self._pack(layout, limit))
        self.limit = limit

    @staticmethod
    def _pack(layout, limit):
        bucket, used = [], 0
        for name, shape in layout:
            n = shape.numel()
            if used + n > limit:
                yield bucket
                bucket, used = [], 0
            bucket.append((name, shape, used))
            used += n
        yield bucket

    def buckets(self, source=None):
        buf = torch.empty(self.limit, device="cuda")
        for bucket in self.layout:
            if source is not None:
                for name, shape, off in bucket:
                    buf[off:off + shape.numel()].copy_(source[name].reshape(-1))
            work = dist.broadcast(buf, src=0, async_op=True)
            work.wait()
            yield [(name, buf[off:off + shape.numel()].view(shape)) for name, shape, off in bucket]


@torch.no_grad()
def main(rounds=10):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(12)]).cuda()
    channel = WeightChannel([(n, p.shape) for n, p in net.named_parameters()], 3 << 20)
    engine = Engine(net)
    trainer = {n: p.clone() for n, p in net.named_parameters()} if dist.get_rank() == 0 else None
    for _ in range(rounds):
        if trainer is not None:
            for p in trainer.values():
                p.mul_(0.99)
        for named in channel.buckets(trainer):
            engine.load(named)
        engine.finish()
        y = net(torch.ones(4, 1024, device="cuda"))
    print(dist.get_rank(), y.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
