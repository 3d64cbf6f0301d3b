import argparse
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class ShadowWeights:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.source = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.detach().clone() for p in self.source]
        self.stream = torch.cuda.Stream()
        self.folds = 0

    def fold(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        weight = 1.0 - min(self.decay, (1 + self.folds) / (10 + self.folds))
        with torch.cuda.stream(self.stream), torch.no_grad():
            for avg, p in zip(self.shadow, self.source):
                avg.lerp_(p.detach(), weight)
        self.folds += 1

    def settle(self, *_):
        torch.cuda.current_stream().wait_stream(self.stream)

    @contextlib.contextmanager
    def applied(self):
        self.settle()
        kept = [p.detach().clone() for p in self.source]
        with torch.no_grad():
            for p, avg in zip(self.source, self.shadow):
                p.copy_(avg)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, k in zip(self.source, kept):
                    p.copy_(k)


class TinyClassifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(64, width), nn.GELU())
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = self.stem(x)
        return self.head(h + self.body(h))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def train(args):
    device = torch.device("cuda")
    torch.manual_seed(args.seed)
    model = TinyClassifier(args.width, 10).to(device)
    ema = ShadowWeights(model, args.decay)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    opt.register_step_pre_hook(ema.settle)

    val_x = torch.randn(2048, 64, device=device)
    val_y = torch.randint(0, 10, (2048,), device=device)
    running = torch.zeros((), device=device)

    for step in range(args.steps):
        x = torch.randn(args.batch, 64, device=device)
        y = torch.randint(0, 10, (args.batch,), device=device)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        ema.fold()
        running += loss.detach()
        if (step + 1) % args.eval_every == 0:
            raw = evaluate(model, val_x, val_y)
            with ema.applied():
                avg = evaluate(model, val_x, val_y)
            print(f"step {step + 1} loss {running.item() / args.eval_every:.4f} raw {raw:.3f} ema {avg:.3f}")
            running.zero_()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--width", type=int, default=1024)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--decay", type=float, default=0.999)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--eval-every", type=int, default=100)
    train(ap.parse_args())
