import queue
import threading

import torch


class Mailbox:
    """Newest published weights, replaced as a whole."""

    def __init__(self):
        self._lock = threading.Lock()
        self._state, self._version = None, 0

    def publish(self, module):
        state = {k: v.detach().clone() for k, v in module.state_dict().items()}
        torch.cuda.current_stream().synchronize()
        with self._lock:
            self._state, self._version = state, self._version + 1

    def fetch(self, seen):
        with self._lock:
            if self._version == seen:
                return None, seen
            return self._state, self._version


class Actor(threading.Thread):
    def __init__(self, make_net, mailbox, out, horizon, rounds):
        super().__init__(daemon=True)
        self.net, self.mailbox, self.out = make_net(), mailbox, out
        self.horizon, self.rounds = horizon, rounds
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _refresh(self, seen):
        state, seen = self.mailbox.fetch(seen)
        if state is not None:
            self.net.load_state_dict(state)
            self.stream.synchronize()
        return seen

    @torch.no_grad()
    def _rollout(self):
        obs = torch.randn(256, 32, device="cuda")
        trail = []
        for _ in range(self.horizon):
            trail.append(obs)
            obs = torch.tanh(self.net(obs) + obs)
        return torch.stack(trail)

    def run(self):
        seen = 0
        with torch.cuda.stream(self.stream):
            for _ in range(self.rounds):
                seen = self._refresh(seen)
                rollout = self._rollout()
                self.stream.synchronize()
                self.out.put(rollout)
        self.out.put(None)


class Learner:
    def __init__(self, net, mailbox, inbox):
        self.net, self.mailbox, self.inbox = net, mailbox, inbox
        self.opt = torch.optim.Adam(net.parameters())

    def run(self):
        stream = torch.cuda.current_stream()
        while (rollout := self.inbox.get()) is not None:
            rollout.record_stream(stream)
            loss = (self.net(rollout[:-1]) - rollout[1:]).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.mailbox.publish(self.net)


def main():
    make = lambda: torch.nn.Linear(32, 32).cuda()
    mailbox, channel = Mailbox(), queue.Queue(maxsize=4)
    actor = Actor(make, mailbox, channel, horizon=16, rounds=100)
    actor.start()
    Learner(make(), mailbox, channel).run()
    actor.join()
