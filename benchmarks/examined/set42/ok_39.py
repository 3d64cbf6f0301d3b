"""Shared device mailbox between a simulator process and a learner process."""
from typing import List

import torch
import torch.multiprocessing as mp


class Mailbox:
    """Slots are mapped in both processes; slot numbers travel through queues."""

    def __init__(self, slots: List[torch.Tensor], free, full):
        self.slots = slots
        self.free = free
        self.full = full

    def post(self, value: torch.Tensor):
        slot = self.free.get()
        self.slots[slot].copy_(value)
        torch.cuda.current_stream().synchronize()
        self.full.put(slot)

    def take(self):
        return self.full.get()

    def done(self, slot: int):
        torch.cuda.current_stream().synchronize()
        self.free.put(slot)


class Simulator:
    def __init__(self, envs: int, dim: int):
        self.state = torch.randn(envs, dim, device="cuda")
        self.dynamics = torch.randn(dim, dim, device="cuda") / dim ** 0.5

    def step(self) -> torch.Tensor:
        self.state = torch.tanh(self.state @ self.dynamics)
        return self.state


class Learner:
    def __init__(self, dim: int, lr: float = 1e-3):
        self.value = torch.nn.Linear(dim, 1).cuda()
        self.opt = torch.optim.Adam(self.value.parameters(), lr=lr)
        self.losses = []

    def update(self, obs: torch.Tensor):
        loss = (self.value(obs).squeeze(-1) - obs.sum(dim=-1)).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.losses.append(loss.detach())


def simulate(envs, dim, steps, handles, free, full, finished):
    slots = [torch.empty(envs, dim, device="cuda") for _ in range(2)]
    handles.put(slots)
    for i in range(len(slots)):
        free.put(i)
    mailbox = Mailbox(slots, free, full)
    simulator = Simulator(envs, dim)
    for _ in range(steps):
        mailbox.post(simulator.step())
    finished.wait()


def learn(dim, steps, handles, free, full, finished):
    mailbox = Mailbox(handles.get(), free, full)
    learner = Learner(dim)
    for _ in range(steps):
        slot = mailbox.take()
        learner.update(mailbox.slots[slot])
        mailbox.done(slot)
    print(torch.stack(learner.losses)[-1].item())
    del mailbox
    finished.set()


def main(envs: int = 4096, dim: int = 512, steps: int = 200):
    ctx = mp.get_context("spawn")
    handles, free, full = ctx.Queue(), ctx.Queue(), ctx.Queue()
    finished = ctx.Event()
    sim = ctx.Process(target=simulate, args=(envs, dim, steps, handles, free, full, finished))
    lrn = ctx.Process(target=learn, args=(dim, steps, handles, free, full, finished))
    sim.start()
    lrn.start()
    lrn.join()
    sim.join()


if __name__ == "__main__":
    main()
