import torch


class SpeculativeDecoder:
    """The draft proposes `guesses` tokens, the target keeps the agreeing ones."""

    def __init__(self, draft, target, lane, cfg):
        self.draft = draft
        self.target = target
        self.lane = lane
        self.cfg = cfg
        self.proposal = torch.zeros(cfg.batch, cfg.guesses + 1, dtype=torch.int64, device="cuda")

    def propose(self, last):
        with self.lane:
            self.proposal[:, 0] = last
            ids = last
            for k in range(self.cfg.guesses):
                ids = self.draft(ids).argmax(-1)
                self.proposal[:, k + 1] = ids

    def verify(self):
        best = self.target(self.proposal).argmax(-1)
        same = (best[:, :-1] == self.proposal[:, 1:]).long().cumprod(1)
        n = same.sum(1, keepdim=True)
        return best.gather(1, n).squeeze(1), n.float().mean()

    @torch.inference_mode()
    def step(self, last):
        self.propose(last)
        return self.verify()

    def expected_length(self, rate):
        """Tokens gained by one step at the given mean acceptance."""
        return 1.0 + min(rate, float(self.cfg.guesses))
