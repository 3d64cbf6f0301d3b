"""In-flight weight refresh for a generation actor."""
import os

import torch
import torch.distributed as dist
from torch import nn


class PolicyUpdater:
    def __init__(self, policy, source):
        self.policy = policy
        self.source = source
        self.comm = torch.cuda.Stream()
        self.version = 0

    @torch.no_grad()
    def refresh(self):
        with torch.cuda.stream(self.comm):
            for tensor in self.policy.state_dict().values():
                incoming = torch.empty_like(tensor)
                dist.broadcast(incoming, self.source)
                tensor.copy_(incoming)
        torch.cuda.current_stream().wait_stream(self.comm)
        self.version += 1


class Actor:
    def __init__(self, width=2048, depth=6):
        self.policy = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)]).cuda()
        self.updater = PolicyUpdater(self.policy, 0)
        self.state = torch.randn(32, width, device="cuda")
        torch.cuda.synchronize()

    @torch.no_grad()
    def generate(self, n):
        for _ in range(n):
            self.state = torch.tanh(self.policy(self.state))


def trainer(width=2048, depth=6, rounds=10):
    weights = [torch.randn(width, width, device="cuda") / 45 for _ in range(depth)]
    for _ in range(rounds):
        for w in weights:
            dist.broadcast(w, 0)


def main(rounds=10):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if dist.get_rank() == 0:
        trainer(rounds=rounds)
    else:
        actor = Actor()
        for _ in range(rounds):
            actor.generate(64)
            actor.updater.refresh()
        print(actor.state.norm().item(), actor.updater.version)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
