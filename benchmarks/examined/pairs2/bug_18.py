"""Actor weights synchronized with the learner from the learner's thread."""
import copy
import threading

import torch
import torch.nn as nn


class ActorReplica:
    def __init__(self, learner_net):
        self.net = copy.deepcopy(learner_net).requires_grad_(False)
        self.mutex = threading.Lock()
        self.loaded = None

    @torch.no_grad()
    def load_from(self, learner_net):
        with self.mutex:
            for dst, src in zip(self.net.parameters(), learner_net.parameters()):
                dst.copy_(src)
            self.loaded = torch.cuda.current_stream().record_event()

    @torch.no_grad()
    def forward(self, obs):
        with self.mutex:
            if self.loaded is not None:
                torch.cuda.current_stream().wait_event(self.loaded)
            return self.net(obs)


class ActorThread(threading.Thread):
    def __init__(self, replica, episodes):
        super().__init__()
        self.replica = replica
        self.episodes = episodes
        self.stream = torch.cuda.Stream()
        self.returns = []

    def run(self):
        with torch.cuda.stream(self.stream):
            for _ in range(self.episodes):
                obs = torch.randn(256, 64, device="cuda")
                logits = self.replica.forward(obs)
                self.returns.append(logits.mean().item())


def main():
    net = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 12)).cuda()
    replica = ActorReplica(net)
    torch.cuda.synchronize()
    actor = ActorThread(replica, episodes=2000)
    actor.start()
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    while actor.is_alive():
        loss = net(torch.randn(1024, 64, device="cuda")).var(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        replica.load_from(net)
    actor.join()
    print(sum(actor.returns) / len(actor.returns))


if __name__ == "__main__":
    main()
