import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


class Bucket:
    def __init__(self, params):
        self.params = params
        size = sum(p.numel() for p in params)
        self.flat = torch.zeros(size, device=params[0].device)
        self.host = torch.zeros(size, pin_memory=True)
        self.landed = torch.cuda.Event()
        self.work = None
        self.views = []
        offset = 0
        for p in params:
            self.views.append(self.flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()


class HostReducer:
    def __init__(self, model, cap):
        self.world = dist.get_world_size()
        self.stream = torch.cuda.Stream()
        self.buckets = [Bucket(group) for group in self._split(list(model.parameters()), cap)]

    @staticmethod
    def _split(params, cap):
        groups, current, size = [], [], 0
        for p in reversed(params):
            if current and size + p.numel() > cap:
                groups.append(current)
                current, size = [], 0
            current.append(p)
            size += p.numel()
        groups.append(current)
        return groups

    def launch(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for b in self.buckets:
                for view, p in zip(b.views, b.params):
                    view.copy_(p.grad)
                b.host.copy_(b.flat, non_blocking=True)
                b.landed.record()

    def exchange(self):
        for b in self.buckets:
            b.landed.synchronize()
            b.work = dist.all_reduce(b.host, async_op=True)

    def collect(self):
        with torch.cuda.stream(self.stream):
            for b in self.buckets:
                b.work.wait()
                b.flat.copy_(b.host, non_blocking=True)
                b.flat.div_(self.world)
                for view, p in zip(b.views, b.params):
                    p.grad.copy_(view)
        torch.cuda.current_stream().wait_stream(self.stream)


def worker(rank, args):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(args.port)
    dist.init_process_group("gloo", rank=rank, world_size=args.world)
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.manual_seed(11)
    model = nn.Sequential(
        nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 16)
    ).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    reducer = HostReducer(model, cap=args.cap)
    torch.manual_seed(100 + rank)
    for step in range(args.steps):
        x = torch.randn(args.batch, 256, device="cuda")
        y = x[:, :16].argmax(dim=1)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        reducer.launch()
        hits = (model(x).detach().argmax(1) == y).sum()
        reducer.exchange()
        reducer.collect()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(step, loss.item(), hits.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--world", type=int, default=2)
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--cap", type=int, default=600_000)
    ap.add_argument("--port", type=int, default=29571)
    a = ap.parse_args()
    mp.spawn(worker, args=(a,), nprocs=a.world)
