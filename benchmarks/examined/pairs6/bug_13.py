"""Policy gradient learner; the update is captured once per batch shape."""
import torch
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self, obs=48, actions=12):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 256), nn.ELU(), nn.Linear(256, 256), nn.ELU())
        self.logits = nn.Linear(256, actions)

    def forward(self, obs):
        return self.logits(self.body(obs)).log_softmax(-1)


class CapturedUpdate:
    def __init__(self, policy, lr=1e-3):
        self.policy = policy
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=lr)
        self.graph = None

    def _update(self):
        logp = self.policy(self.obs).gather(1, self.action).squeeze(1)
        loss = -(logp * self.advantage).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._update()

    def learn(self, obs, action, advantage):
        self.obs = obs
        self.action = action.unsqueeze(1)
        self.advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        if self.graph is None:
            self._capture()
        self.graph.replay()
        return self.loss.clone()


def rollout(policy, n=4096):
    with torch.no_grad():
        obs = torch.randn(n, 48, device="cuda")
        action = torch.distributions.Categorical(logits=policy(obs)).sample()
        return obs, action, obs[:, 0] * (action.float() - 5)


def main():
    policy = Policy().cuda()
    update = CapturedUpdate(policy)
    for iteration in range(400):
        loss = update.learn(*rollout(policy))
        if iteration % 50 == 0:
            print(iteration, loss.item())


if __name__ == "__main__":
    main()
