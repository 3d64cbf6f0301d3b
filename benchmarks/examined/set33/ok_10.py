"""Overlapped rollout and learning: the learner owns the weights, actors work on a snapshot."""
import threading

import torch
from torch import nn


def make_policy(obs=64, act=8):
    return nn.Sequential(nn.Linear(obs, 256), nn.Tanh(), nn.Linear(256, act))


class Snapshot:
    """Weights which the actors use."""

    def __init__(self, policy):
        self.policy = policy
        self.lock = threading.Lock()
        self.written = torch.cuda.Event()
        self.written.record()
        self.readers = []

    @torch.no_grad()
    def publish(self, source):
        with self.lock:
            stream = torch.cuda.current_stream()
            stream.wait_event(self.written)
            for event in self.readers:
                stream.wait_event(event)
            self.readers.clear()
            for dst, src in zip(self.policy.parameters(), source.parameters()):
                dst.copy_(src)
            self.written.record(stream)

    @torch.no_grad()
    def act(self, obs):
        with self.lock:
            stream = torch.cuda.current_stream()
            stream.wait_event(self.written)
            action = self.policy(obs).tanh()
            event = torch.cuda.Event()
            event.record(stream)
            self.readers.append(event)
        return action


class Actor(threading.Thread):
    def __init__(self, snapshot, steps, device):
        super().__init__(daemon=True)
        self.snapshot, self.steps, self.device = snapshot, steps, device
        self.stream = torch.cuda.Stream(device)
        self.returns = None

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            obs = torch.randn(128, 64, device=self.device)
            total = torch.zeros(128, device=self.device)
            for _ in range(self.steps):
                action = self.snapshot.act(obs)
                obs = 0.9 * obs + 0.1 * torch.nn.functional.pad(action, (0, 56))
                total -= obs.pow(2).mean(dim=1)
            self.returns = total.cpu()


def train(updates=100, actors=3, device="cuda:0"):
    device = torch.device(device)
    torch.cuda.set_device(device)
    learner = make_policy().to(device)
    snapshot = Snapshot(make_policy().to(device))
    optimizer = torch.optim.Adam(learner.parameters())
    workers = [Actor(snapshot, 500, device) for _ in range(actors)]
    for w in workers:
        w.start()
    for _ in range(updates):
        obs = torch.randn(512, 64, device=device)
        loss = (learner(obs) + obs[:, :8]).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        snapshot.publish(learner)
    for w in workers:
        w.join()
    return torch.stack([w.returns for w in workers]).mean().item()
