import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def setup(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12355")
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)


def train(model, rank, loader, optimizer, epoch, sampler):
    model.train()
    ddp_loss = torch.zeros(2, device=rank)
    sampler.set_epoch(epoch)
    for data, target in loader:
        data = data.to(rank, non_blocking=True)
        target = target.to(rank, non_blocking=True)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target, reduction="sum")
        loss.backward()
        optimizer.step()
        ddp_loss[0] += loss.detach()
        ddp_loss[1] += len(data)
    dist.all_reduce(ddp_loss, op=dist.ReduceOp.SUM)
    return ddp_loss


def fsdp_main(rank, world_size, args, dataset):
    setup(rank, world_size)
    sampler = DistributedSampler(dataset, rank=rank, num_replicas=world_size, shuffle=True)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=args.batch_size, sampler=sampler, num_workers=2, pin_memory=True)
    init_start_event = torch.cuda.Event(enable_timing=True)
    init_end_event = torch.cuda.Event(enable_timing=True)

    model = FSDP(Net().to(rank))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    history = []
    init_start_event.record()
    for epoch in range(1, args.epochs + 1):
        history.append(train(model, rank, loader, optimizer, epoch, sampler))
    init_end_event.record()

    if rank == 0:
        seconds = init_start_event.elapsed_time(init_end_event) / 1000
        print(f"CUDA event elapsed time: {seconds}sec")
        for epoch, stat in enumerate(history, 1):
            print(f"epoch {epoch}: loss {(stat[0] / stat[1]).item():.6f}")
    dist.destroy_process_group()


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    return parser.parse_args()
