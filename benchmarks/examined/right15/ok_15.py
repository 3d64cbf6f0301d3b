"""Evaluates an ensemble with every member on a stream of its own."""
import torch
from torch import nn


class Ensemble:
    def __init__(self, members, device):
        self.device = torch.device(device)
        self.members = [m.to(self.device).eval() for m in members]
        self.streams = [torch.cuda.Stream(self.device) for _ in members]

    @torch.inference_mode()
    def logits(self, x):
        home = torch.cuda.current_stream(self.device)
        begin = home.record_event()
        parts = []
        try:
            for member, stream in zip(self.members, self.streams):
                stream.wait_event(begin)
                with torch.cuda.stream(stream):
                    parts.append(member(x))
        finally:
            for stream in self.streams:
                home.wait_stream(stream)
        for part in parts:
            part.record_stream(home)
        return torch.stack(parts)

    @torch.inference_mode()
    def predict(self, x):
        scores = self.logits(x)
        return scores.softmax(-1).mean(0).argmax(-1), scores.var(0).mean(-1)

    @torch.no_grad()
    def perturb(self, sigma):
        for member in self.members:
            for p in member.parameters():
                p.add_(torch.randn_like(p), alpha=sigma)


def build(width, classes):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                         nn.Linear(4 * width, classes))


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    ensemble = Ensemble([build(128, 10) for _ in range(4)], device)
    agreement = torch.zeros((), device=device)
    for round_ in range(10):
        x = torch.randn(256, 128, device=device)
        before, _ = ensemble.predict(x)
        ensemble.perturb(1e-3)
        after, spread = ensemble.predict(x)
        agreement += (before == after).float().mean() / 10
        if round_ == 9:
            print("spread", spread.mean().item())
    print("agreement", agreement.item())


if __name__ == "__main__":
    main()
