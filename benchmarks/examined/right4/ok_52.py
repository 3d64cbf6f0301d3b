import torch


class PingPong:
    def __init__(self, shape, device="cuda"):
        self.halves = [torch.zeros(shape, device=device) for _ in range(2)]
        self.side = 0

    @property
    def live(self):
        return self.halves[self.side]

    def reorder(self, parents):
        other = self.halves[1 - self.side]
        torch.index_select(self.live, 0, parents, out=other)
        self.side = 1 - self.side
        return other


class BackTrace:
    """Streams beam parents and tokens to the host."""

    def __init__(self, steps, beams):
        self.host = torch.empty(steps, 2, beams, dtype=torch.long, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.last = torch.cuda.Event()
        self.count = 0

    def record(self, pair):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.host[self.count].copy_(pair, non_blocking=True)
            self.last.record()
        self.count += 1

    def release(self):
        torch.cuda.current_stream().wait_event(self.last)

    def best(self):
        self.last.synchronize()
        beam, tokens = 0, []
        for parents, toks in reversed(self.host[: self.count].tolist()):
            tokens.append(toks[beam])
            beam = parents[beam]
        return tokens[::-1]


class BeamSearch:
    def __init__(self, net, beams, width, vocab, steps):
        self.net, self.vocab, self.steps = net, vocab, steps
        self.state = PingPong((beams, width))
        self.pair = torch.zeros(2, beams, dtype=torch.long, device="cuda")
        self.scores = torch.zeros(beams, device="cuda")
        self.trace = BackTrace(steps, beams)

    def step(self):
        hidden = torch.tanh(self.net(self.state.live))
        self.state.live.copy_(hidden)
        logp = (hidden[:, : self.vocab]).log_softmax(-1) + self.scores[:, None]
        top, flat = logp.flatten().topk(self.scores.numel())
        self.scores.copy_(top)
        self.trace.release()
        torch.div(flat, self.vocab, rounding_mode="floor", out=self.pair[0])
        torch.remainder(flat, self.vocab, out=self.pair[1])
        self.state.reorder(self.pair[0])
        self.trace.record(self.pair)

    @torch.no_grad()
    def run(self):
        for _ in range(self.steps):
            self.step()
        return self.trace.best()


if __name__ == "__main__":
    print(BeamSearch(torch.nn.Linear(256, 256).cuda(), 4, 256, 200, 30).run())
