import torch


class Proposer:
    def __init__(self, net, gamma, device="cuda"):
        self.net, self.gamma = net, gamma
        self.stream = torch.cuda.Stream()
        self.tokens = torch.zeros(gamma + 1, dtype=torch.long, device=device)
        self.ready = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())

    def propose(self, accepted):
        with torch.cuda.stream(self.stream):
            accepted.event.wait()
            self.tokens[0].copy_(accepted.last)
            for i in range(self.gamma):
                self.tokens[i + 1].copy_(self.net(self.tokens[i]).argmax(-1))
            self.ready.record()


class Accepted:
    def __init__(self, last):
        self.last = last.clone()
        self.event = torch.cuda.Event()
        self.event.record()

    def update(self, token):
        self.last.copy_(token)
        self.event.record()


class Verifier:
    def __init__(self, net):
        self.net = net

    def check(self, proposer, accepted):
        torch.cuda.current_stream().wait_event(proposer.ready)
        target = self.net(proposer.tokens).argmax(-1)
        hit = (target[:-1] == proposer.tokens[1:]).long().cumprod(0).sum()
        accepted.update(target.gather(0, hit.view(1)).squeeze(0))
        n = int(hit.item())
        return target[: n + 1].tolist()


@torch.no_grad()
def generate(target, draft, first, length, gamma=4):
    proposer, verifier = Proposer(draft, gamma), Verifier(target)
    accepted = Accepted(torch.tensor(first, device="cuda"))
    out = []
    while len(out) < length:
        proposer.propose(accepted)
        out.extend(verifier.check(proposer, accepted))
    return out[:length]


if __name__ == "__main__":
    make = lambda d: torch.nn.Sequential(torch.nn.Embedding(500, d), torch.nn.Linear(d, 500)).cuda()
    print(generate(make(256), make(32), 1, 100))
