import torch

from spec import Lane, SpecConfig, SpeculativeDecoder
from spec.models import Draft, Target


def build(cfg):
    draft = Draft(cfg).cuda().eval()
    target = Target(cfg).cuda().eval()
    return SpeculativeDecoder(draft, target, Lane(cfg.lane), cfg)


def generate(decoder, cfg, steps):
    last = torch.zeros(cfg.batch, dtype=torch.int64, device="cuda")
    accepted = []
    for _ in range(steps):
        last, rate = decoder.step(last)
        accepted.append(rate)
    return last.tolist(), torch.stack(accepted).mean().item()


def histogram(tokens, width=8):
    top = max(tokens) + 1
    bins = [0] * width
    for t in tokens:
        bins[t * width // top] += 1
    return bins


def main():
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    cfg = SpecConfig(guesses=4)
    decoder = build(cfg)
    tokens, rate = generate(decoder, cfg, 100)
    print(tokens[:8], rate, histogram(tokens))


if __name__ == "__main__":
    main()
