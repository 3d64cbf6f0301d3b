"""Two-device pipeline whose second half also feeds an auxiliary scoring branch."""
import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, dim, depth, device):
        super().__init__()
        self.device = torch.device(device)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth)).to(self.device)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x


class ScoreBranch:
    def __init__(self, dim, device):
        self.device = torch.device(device)
        self.proj = torch.randn(dim, 64, device=self.device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.done = torch.cuda.Event()

    def launch(self, hidden):
        ready = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            logits = hidden @ self.proj
            scores = logits.softmax(dim=-1).amax(dim=-1)
            self.done.record(self.stream)
        hidden.record_stream(self.stream)
        return scores

    def join(self, scores):
        consumer = torch.cuda.current_stream(self.device)
        consumer.wait_event(self.done)
        scores.record_stream(consumer)
        return scores


class SplitModel:
    def __init__(self, dim, depth):
        self.front = Stage(dim, depth, "cuda:0")
        self.back = Stage(dim, depth, "cuda:1")
        self.head = nn.Linear(dim, 1000).to("cuda:1")
        self.branch = ScoreBranch(dim, "cuda:1")
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)

    @torch.no_grad()
    def __call__(self, x):
        h = self.front(x)
        h = h.to(self.back.device, non_blocking=True)
        h = self.back(h)
        scores = self.branch.launch(h)
        logits = self.head(h)
        return logits, self.branch.join(scores)


class Evaluator:
    def __init__(self, model, keep):
        self.model = model
        self.keep = keep
        self.kept = []

    def update(self, x):
        logits, scores = self.model(x)
        idx = scores.topk(self.keep).indices
        self.kept.append(logits.index_select(0, idx).argmax(dim=-1))

    def compute(self):
        return torch.cat(self.kept).bincount(minlength=1000).cpu()


def main():
    torch.manual_seed(0)
    torch.cuda.set_device(0)
    ev = Evaluator(SplitModel(4096, 8), keep=32)
    for _ in range(20):
        ev.update(torch.randn(1024, 4096, device="cuda:0"))
    print(ev.compute().topk(5))


if __name__ == "__main__":
    main()
