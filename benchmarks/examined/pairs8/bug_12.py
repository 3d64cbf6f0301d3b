import torch
import torch.nn as nn


def make_lm(vocab, dim):
    return nn.Sequential(nn.Embedding(vocab, dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, vocab)).cuda()


class DraftWorker:
    def __init__(self, model, steps, stream):
        self.model = model
        self.steps = steps
        self.stream = stream

    def propose(self, seed, out):
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.stream(self.stream):
            token = seed
            for i in range(self.steps):
                token = self.model(token).argmax(-1)
                out[i].copy_(token)


class TargetWorker:
    def __init__(self, model):
        self.model = model

    def verify(self, seed, proposal):
        inputs = torch.cat([seed.unsqueeze(0), proposal[:-1]], dim=0)
        best = self.model(inputs).argmax(-1)
        n_ok = (best == proposal).long().cumprod(0).sum(0)
        seed.copy_(best.gather(0, n_ok.clamp(max=len(proposal) - 1)[None])[0])
        return n_ok


class SpecEngine:
    def __init__(self, steps=5, bs=16, vocab=8192):
        self.stream = torch.cuda.Stream()
        self.draft = DraftWorker(make_lm(vocab, 64), steps, self.stream)
        self.target = TargetWorker(make_lm(vocab, 1024))
        self.seed = torch.randint(0, vocab, (bs,), device="cuda")
        self.proposal = torch.zeros(steps, bs, dtype=torch.long, device="cuda")
        torch.cuda.synchronize()

    @torch.inference_mode()
    def step(self):
        self.draft.propose(self.seed, self.proposal)
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.target.verify(self.seed, self.proposal)


def main():
    engine = SpecEngine()
    lengths = [engine.step() for _ in range(64)]
    print(torch.stack(lengths).float().mean().item())


if __name__ == "__main__":
    main()
