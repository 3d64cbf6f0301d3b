"""Training with an averaged copy of the model that is evaluated while training goes on."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Averager:
    def __init__(self, model, decay=0.99):
        self.live = [p.detach() for p in model.parameters()]
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.mean = [p.detach() for p in self.shadow.parameters()]
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.taken = torch.cuda.Event()
        self.scored = torch.cuda.Event()

    def absorb(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        self.stream.wait_event(self.scored)
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.mean, self.live, 1.0 - self.decay)
            self.taken.record()

    def hold(self):
        torch.cuda.current_stream().wait_event(self.taken)


class Evaluator:
    def __init__(self, averager, x, y):
        self.averager = averager
        self.x, self.y = x, y
        self.stream = torch.cuda.Stream(priority=-1)
        self.reports = []

    def launch(self, step):
        avg = self.averager
        slip = {"step": step,
                "host": torch.empty(2, pin_memory=True),
                "ready": torch.cuda.Event()}
        self.stream.wait_event(avg.taken)
        with torch.cuda.stream(self.stream), torch.no_grad():
            logits = avg.shadow(self.x)
            loss = F.cross_entropy(logits, self.y)
            hits = (logits.argmax(dim=1) == self.y).float().mean()
            avg.scored.record()
            slip["host"].copy_(torch.stack([loss, hits]), non_blocking=True)
            slip["ready"].record()
        self.reports.append(slip)

    def poll(self, wait=False):
        left = []
        for slip in self.reports:
            if wait:
                slip["ready"].synchronize()
            if slip["ready"].query():
                loss, hits = slip["host"].tolist()
                print(f"step {slip['step']:4d}  loss {loss:.4f}  acc {hits:.3f}")
            else:
                left.append(slip)
        self.reports = left


def main(steps=400, every=20):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 8)).cuda()
    teacher = torch.randn(64, 8, device="cuda")
    x_val = torch.randn(4096, 64, device="cuda")
    y_val = (x_val @ teacher).argmax(dim=1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    averager = Averager(model)
    evaluator = Evaluator(averager, x_val, y_val)
    for step in range(1, steps + 1):
        x = torch.randn(256, 64, device="cuda")
        y = (x @ teacher).argmax(dim=1)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        averager.hold()
        opt.step()
        averager.absorb()
        if step % every == 0:
            evaluator.launch(step)
        evaluator.poll()
    evaluator.poll(wait=True)


if __name__ == "__main__":
    main()
