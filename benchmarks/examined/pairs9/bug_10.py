"""Rollout collection for RL fine-tuning: trajectories are archived by a helper thread."""
import queue
import threading

import torch
from torch import nn


class TrajectoryArchive:
    def __init__(self):
        self.inbox = queue.Queue()
        self.episodes = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def append(self, step, logits, values):
        self.inbox.put((step, logits, values))

    def _serve(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            step, logits, values = item
            entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
            self.episodes.append((step, entropy.mean().item(), values.cpu()))

    def finish(self):
        self.inbox.put(None)
        self.thread.join()
        return self.episodes


class ActorCritic(nn.Module):
    def __init__(self, obs, actions):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh())
        self.pi = nn.Linear(1024, actions)
        self.v = nn.Linear(1024, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.pi(h), self.v(h).squeeze(-1)


@torch.no_grad()
def collect(model, steps, obs_dim=128, envs=1024):
    archive = TrajectoryArchive()
    rollout_stream = torch.cuda.Stream()
    rollout_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(rollout_stream):
        obs = torch.randn(envs, obs_dim, device="cuda")
        for step in range(steps):
            logits, values = model(obs)
            archive.append(step, logits, values)
            action = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
            obs = obs.roll(1, dims=0) + action.unsqueeze(-1) * 1e-3
    return archive.finish()


def main():
    model = ActorCritic(128, 18).cuda()
    for epoch in range(5):
        episodes = collect(model, 64)
        print(epoch, sum(e for _, e, _ in episodes) / len(episodes))


if __name__ == "__main__":
    main()
