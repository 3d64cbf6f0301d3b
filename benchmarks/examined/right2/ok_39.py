import torch
import torch.nn as nn
from torch.func import functional_call


class WeightSet:
    def __init__(self, module: nn.Module):
        self.tensors = {n: p.detach().clone() for n, p in module.named_parameters()}
        self.ready = torch.cuda.Event()
        self.last_use = torch.cuda.Event()
        self.ready.record()
        self.last_use.record()
        self.version = 0


class RolloutPolicy:
    """Serves actions from one weight set while the other one is refreshed."""

    def __init__(self, module: nn.Module):
        self.module = module
        self.sets = [WeightSet(module) for _ in range(2)]
        self.active = 0
        self.sync_stream = torch.cuda.Stream()

    @property
    def current(self) -> WeightSet:
        chosen = self.sets[self.active]
        torch.cuda.current_stream().wait_event(chosen.ready)
        return chosen

    def publish(self, state: dict, version: int) -> None:
        target = self.sets[1 - self.active]
        self.sync_stream.wait_event(target.last_use)
        with torch.cuda.stream(self.sync_stream):
            for name, tensor in target.tensors.items():
                tensor.copy_(state[name], non_blocking=True)
            target.ready.record()
        target.version = version
        self.active = 1 - self.active

    @torch.no_grad()
    def act(self, obs: torch.Tensor) -> torch.Tensor:
        weights = self.current
        try:
            logits = functional_call(self.module, weights.tensors, (obs,))
            return torch.distributions.Categorical(logits=logits).sample()
        finally:
            weights.last_use.record()


class Learner:
    def __init__(self, module: nn.Module, lr: float):
        self.module = module
        self.optimizer = torch.optim.Adam(module.parameters(), lr=lr)

    def update(self, obs, actions, advantage):
        logp = torch.distributions.Categorical(logits=self.module(obs)).log_prob(actions)
        loss = -(logp * advantage).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def export(self) -> dict:
        return {n: p.detach().cpu().pin_memory() for n, p in self.module.named_parameters()}


def train(make_module, env, iterations: int, horizon: int):
    learner = Learner(make_module().cuda(), 3e-4)
    policy = RolloutPolicy(make_module().cuda())
    policy.publish(learner.export(), 0)
    obs = env.reset()
    for iteration in range(1, iterations + 1):
        batch = []
        for _ in range(horizon):
            device_obs = torch.as_tensor(obs, dtype=torch.float32).cuda()
            actions = policy.act(device_obs)
            obs, reward = env.step(actions.tolist())
            batch.append((device_obs, actions, torch.as_tensor(reward).float().cuda()))
        learner.update(*(torch.cat(column) for column in zip(*batch)))
        policy.publish(learner.export(), iteration)
