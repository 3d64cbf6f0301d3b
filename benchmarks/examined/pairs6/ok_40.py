"""Trainer rank publishes its weights to rollout ranks while it prepares the next update."""
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class WeightPublisher:
    def __init__(self, model, source=0):
        self.params = list(model.parameters())
        self.source = source
        self.stream = torch.cuda.Stream()
        self.idle = None

    def start(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for p in self.params:
                dist.broadcast(p.data, src=self.source)
        self.idle = self.stream.record_event()

    @contextlib.contextmanager
    def exclusive(self):
        if self.idle is not None:
            torch.cuda.current_stream().wait_event(self.idle)
            self.idle = None
        yield


def make_policy():
    return nn.Sequential(nn.Linear(96, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 8)).cuda()


def trainer(publisher, policy, iterations):
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for _ in range(iterations):
        for _ in range(4):
            obs = torch.randn(2048, 96, device="cuda")
            action = policy(obs)
            loss = (action - obs[:, :8]).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            with publisher.exclusive():
                optimizer.step()
        publisher.start()
    torch.cuda.synchronize()


def rollout(publisher, policy, iterations):
    score = torch.zeros((), device="cuda")
    for _ in range(iterations):
        publisher.start()
        with publisher.exclusive(), torch.no_grad():
            for _ in range(16):
                obs = torch.randn(512, 96, device="cuda")
                score.add_((policy(obs) - obs[:, :8]).square().mean())
    print(dist.get_rank(), score.item())


def main(iterations=100):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    policy = make_policy()
    publisher = WeightPublisher(policy)
    role = trainer if dist.get_rank() == 0 else rollout
    role(publisher, policy, iterations)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
