"""Draft and target models on two streams, handing over through named events."""
import torch


class Handover:
    def __init__(self, *names):
        self._events = {name: torch.cuda.Event() for name in names}

    def publish(self, name):
        self._events[name].record()

    def require(self, name):
        torch.cuda.current_stream().wait_event(self._events[name])


class SpeculativeWorker:
    def __init__(self, dim=1024, vocab=8192, k=4):
        self.k = k
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.draft_w = torch.randn(dim, dim, device="cuda") / 32
        self.target_w = torch.randn(3, dim, dim, device="cuda") / 32
        self.head = torch.randn(dim, vocab, device="cuda")
        self.drafts = torch.zeros(16, k, dtype=torch.int64, device="cuda")
        self.last = torch.zeros(16, dtype=torch.int64, device="cuda")
        self.draft_stream = torch.cuda.Stream()
        self.target_stream = torch.cuda.Stream()
        self.handover = Handover("drafted", "verified")
        torch.cuda.synchronize()

    def _draft(self):
        with torch.cuda.stream(self.draft_stream):
            self.handover.require("verified")
            h = self.emb[self.last]
            for i in range(self.k):
                h = torch.tanh(h @ self.draft_w)
                self.drafts[:, i] = (h @ self.head).argmax(-1)
            self.handover.publish("drafted")

    def _verify(self):
        with torch.cuda.stream(self.target_stream):
            self.handover.require("drafted")
            h = self.emb[torch.cat([self.last[:, None], self.drafts], 1)]
            for w in self.target_w:
                h = torch.tanh(h @ w)
            target = (h @ self.head).argmax(-1)
            hit = (target[:, :-1] == self.drafts).int().cumprod(-1).sum(-1)
            self.last.copy_(target.gather(1, hit[:, None]).squeeze(1))
            self.handover.publish("verified")

    def generate(self, rounds):
        for _ in range(rounds):
            self._draft()
            self._verify()
        self.target_stream.synchronize()
        return self.last.tolist()


if __name__ == "__main__":
    print(SpeculativeWorker().generate(64))
