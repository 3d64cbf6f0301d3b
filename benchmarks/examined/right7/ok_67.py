"""Evaluation on a snapshot in another thread."""
import copy
import threading

import torch
from torch import nn


class BackgroundEval:
    def __init__(self, model: nn.Module, data: torch.Tensor):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.data = data
        self.stream = torch.cuda.Stream()
        self.thread = None
        self.scores = {}

    def launch(self, step: int, model: nn.Module):
        self.join()
        with torch.no_grad():
            for dst, src in zip(self.shadow.parameters(), model.parameters()):
                dst.copy_(src)
        ready = torch.cuda.current_stream().record_event()
        self.thread = threading.Thread(target=self._run, args=(step, ready))
        self.thread.start()

    @torch.inference_mode()
    def _run(self, step, ready):
        self.stream.wait_event(ready)
        with torch.cuda.stream(self.stream):
            total = 0.0
            for chunk in self.data.split(256):
                total += self.shadow(chunk).square().sum().item()
        self.scores[step] = total

    def join(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None


def main():
    model = nn.Linear(128, 8).cuda()
    opt = torch.optim.Adam(model.parameters())
    evaluator = BackgroundEval(model, torch.randn(4096, 128, device="cuda"))
    for step in range(100):
        model(torch.randn(32, 128, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad()
        if step % 20 == 0:
            evaluator.launch(step, model)
    evaluator.join()
    print(evaluator.scores)


if __name__ == "__main__":
    main()
