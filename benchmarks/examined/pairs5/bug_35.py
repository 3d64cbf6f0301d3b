"""Policy served through a CUDA graph; a learner pushes parameters into the captured weights between steps."""
import torch
from torch import nn


class ActorGraph:
    def __init__(self, policy, obs_shape):
        self.policy = policy.eval()
        self.obs = torch.zeros(obs_shape, device="cuda")
        with torch.no_grad():
            self.policy(self.obs)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.logits = self.policy(self.obs)

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return torch.distributions.Categorical(logits=self.logits).sample()


class ParameterPush:
    def __init__(self, actor, learner):
        self.pairs = list(zip(actor.policy.parameters(), learner.parameters()))
        self.stream = torch.cuda.Stream()
        self.pushed = torch.cuda.Event()

    @torch.no_grad()
    def __call__(self, updated):
        self.stream.wait_event(updated)
        with torch.cuda.stream(self.stream):
            for dst, src in self.pairs:
                dst.copy_(src)
            self.pushed.record()

    def fence(self):
        torch.cuda.current_stream().wait_event(self.pushed)


class Learner:
    def __init__(self, net):
        self.net = net
        self.stream = torch.cuda.Stream()
        self.opt = torch.optim.SGD(net.parameters(), lr=1e-3)

    def update(self, obs, actions, push):
        self.stream.wait_stream(torch.cuda.current_stream())
        push_done = push.pushed
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(push_done)
            loss = nn.functional.cross_entropy(self.net(obs), actions)
            self.opt.zero_grad(set_to_none=False)
            loss.backward()
            self.opt.step()
            event = self.stream.record_event()
        obs.record_stream(self.stream)
        actions.record_stream(self.stream)
        return event


def build():
    return nn.Sequential(nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 16)).cuda()


def main():
    actor = ActorGraph(build(), (4096, 128))
    learner = Learner(build())
    push = ParameterPush(actor, learner.net)
    torch.cuda.synchronize()
    histogram = torch.zeros(16, device="cuda")
    for step in range(500):
        obs = torch.randn(4096, 128, device="cuda")
        actions = actor.act(obs)
        histogram += torch.bincount(actions, minlength=16)
        if step % 5 == 4:
            push(learner.update(obs, actions, push))
    push.fence()
    print(histogram.tolist())


if __name__ == "__main__":
    main()
