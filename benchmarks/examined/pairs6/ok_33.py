"""Critic and actor updates as two graphs of one memory pool, replayed one after the other."""
import torch
import torch.nn as nn


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ActorCritic:
    def __init__(self, obs=24, act=6, batch=4096):
        self.actor = mlp(obs, 256, 256, act).cuda()
        self.critic = mlp(obs + act, 256, 256, 1).cuda()
        self.obs = torch.zeros(batch, obs, device="cuda")
        self.action = torch.zeros(batch, act, device="cuda")
        self.reward = torch.zeros(batch, 1, device="cuda")
        kwargs = dict(lr=3e-4, capturable=True)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), **kwargs)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), **kwargs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._critic_step()
                self._actor_step()
        torch.cuda.current_stream().wait_stream(side)
        self.critic_graph, self.actor_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.critic_graph):
            self.critic_loss = self._critic_step()
        with torch.cuda.graph(self.actor_graph, pool=self.critic_graph.pool()):
            self.actor_loss = self._actor_step()

    def _critic_step(self):
        self.critic_opt.zero_grad(set_to_none=True)
        q = self.critic(torch.cat([self.obs, self.action], 1))
        loss = (q - self.reward).square().mean()
        loss.backward()
        self.critic_opt.step()
        return loss.detach()

    def _actor_step(self):
        self.actor_opt.zero_grad(set_to_none=True)
        loss = -self.critic(torch.cat([self.obs, self.actor(self.obs).tanh()], 1)).mean()
        grads = torch.autograd.grad(loss, list(self.actor.parameters()))
        for p, g in zip(self.actor.parameters(), grads):
            p.grad = g
        self.actor_opt.step()
        return loss.detach()

    def update(self, obs, action, reward):
        self.obs.copy_(obs)
        self.action.copy_(action)
        self.reward.copy_(reward)
        self.critic_graph.replay()
        self.actor_graph.replay()


def main():
    agent = ActorCritic()
    for step in range(2000):
        obs = torch.randn(4096, 24, device="cuda")
        action = torch.rand(4096, 6, device="cuda") * 2 - 1
        agent.update(obs, action, -(action - obs[:, :6].tanh()).square().mean(1, keepdim=True))
        if step % 200 == 0:
            print(step, agent.critic_loss.item(), agent.actor_loss.item())


if __name__ == "__main__":
    main()
