import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn

STEPS = 400
DEPTH = 3
SHAPE = (256, 129)


class Slot:
    def __init__(self, device):
        self.host = torch.empty(SHAPE, pin_memory=True)
        self.dev = torch.empty(SHAPE, device=device)
        self.work = None
        self.copied = torch.cuda.Event()
        self.used = torch.cuda.Event()


class Inbox:
    def __init__(self, src, device):
        self.src = src
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = [Slot(device) for _ in range(DEPTH)]
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))
        for slot in self.slots:
            self.post(slot)

    def post(self, slot):
        slot.copied.synchronize()
        slot.work = dist.irecv(slot.host, src=self.src)

    def take(self, slot):
        slot.work.wait()
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.used)
            slot.dev.copy_(slot.host, non_blocking=True)
            slot.copied.record(self.copy_stream)
        torch.cuda.current_stream(self.device).wait_event(slot.copied)
        return slot.dev[:, :128], slot.dev[:, 128:]

    def give_back(self, slot, again):
        slot.used.record(torch.cuda.current_stream(self.device))
        if again:
            self.post(slot)


def feed():
    gen = torch.Generator().manual_seed(7)
    secret = torch.randn(128, 1, generator=gen)
    for _ in range(STEPS):
        x = torch.randn(SHAPE[0], 128, generator=gen)
        dist.send(torch.cat([x, x @ secret], dim=1), dst=1)


def fit():
    device = torch.device("cuda:0")
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    inbox = Inbox(0, device)
    for step in range(STEPS):
        slot = inbox.slots[step % DEPTH]
        x, y = inbox.take(slot)
        loss = (model(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        inbox.give_back(slot, again=step + DEPTH < STEPS)
        opt.step()
        if step % 50 == 0:
            print(step, loss.item(), flush=True)


def entry(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    if rank == 0:
        feed()
    else:
        fit()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(entry, args=(29541,), nprocs=2)
