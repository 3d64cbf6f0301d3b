import queue
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT = 24, 4


def make_policy():
    return nn.Sequential(nn.Linear(OBS, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, ACT)).cuda()


class Mailbox:
    def __init__(self, module):
        self.tensors = [p.detach().clone() for p in module.parameters()]
        self.lock = threading.Lock()
        self.version = 0

    def publish(self, module):
        with self.lock, torch.no_grad():
            torch._foreach_copy_(self.tensors, [p.detach() for p in module.parameters()])
            torch.cuda.current_stream().synchronize()
            self.version += 1

    def fetch(self, module, have):
        with self.lock, torch.no_grad():
            if have == self.version:
                return have
            for p, t in zip(module.parameters(), self.tensors):
                p.copy_(t)
            torch.cuda.current_stream().synchronize()
            return self.version


class Actor(threading.Thread):
    def __init__(self, ident, policy, mailbox, rollouts, outbox):
        super().__init__(name=f"actor-{ident}")
        self.policy = policy
        self.mailbox = mailbox
        self.rollouts = rollouts
        self.outbox = outbox
        self.stream = torch.cuda.Stream()

    def rollout(self, envs=64, horizon=16):
        obs = torch.randn(envs, OBS, device="cuda")
        steps = []
        for _ in range(horizon):
            action = torch.distributions.Categorical(logits=self.policy(obs)).sample()
            reward = obs.gather(1, action.unsqueeze(1)).squeeze(1)
            steps.append((obs, action, reward))
            obs = torch.roll(obs, 1, dims=1) + 0.1 * torch.randn_like(obs)
        return [torch.stack(column) for column in zip(*steps)]

    def run(self):
        have = -1
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(self.rollouts):
                have = self.mailbox.fetch(self.policy, have)
                traj = self.rollout()
                self.stream.synchronize()
                self.outbox.put(traj)


class Learner(threading.Thread):
    def __init__(self, policy, mailbox, total, inbox, every=4):
        super().__init__(name="learner")
        self.policy = policy
        self.mailbox = mailbox
        self.total = total
        self.inbox = inbox
        self.every = every
        self.stream = torch.cuda.Stream()
        self.history = []

    def run(self):
        opt = torch.optim.RMSprop(self.policy.parameters(), lr=5e-4)
        with torch.cuda.stream(self.stream):
            for n in range(self.total):
                traj = self.inbox.get()
                for t in traj:
                    t.record_stream(self.stream)
                obs, action, reward = traj
                adv = reward - reward.mean()
                logp = F.log_softmax(self.policy(obs), dim=-1).gather(2, action.unsqueeze(2)).squeeze(2)
                loss = -(logp * adv).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                if n % self.every == 0:
                    self.mailbox.publish(self.policy)
                    self.history.append(reward.mean().item())


def main(actors=3, rollouts=100):
    torch.manual_seed(2)
    policy = make_policy()
    mailbox = Mailbox(policy)
    box = queue.Queue(maxsize=8)
    crew = [Actor(i, make_policy(), mailbox, rollouts, box) for i in range(actors)]
    learner = Learner(policy, mailbox, actors * rollouts, box)
    torch.cuda.synchronize()
    for t in [learner, *crew]:
        t.start()
    for t in [*crew, learner]:
        t.join()
    print(mailbox.version, learner.history[0], learner.history[-1])


if __name__ == "__main__":
    main()
