"""Gradient compression thread that stays on the default stream of its device."""
import queue
import threading
from typing import Dict, List

import torch
import torch.nn as nn


class ErrorFeedback:
    def __init__(self, keep: float):
        self.keep = keep
        self.residual: Dict[int, torch.Tensor] = {}

    def __call__(self, key: int, grad: torch.Tensor) -> torch.Tensor:
        flat = grad.reshape(-1)
        if key in self.residual:
            flat = flat + self.residual[key]
        k = max(1, int(self.keep * flat.numel()))
        top = flat.abs().topk(k).indices
        sparse = torch.zeros_like(flat)
        sparse[top] = flat[top]
        self.residual[key] = flat - sparse
        return sparse.view_as(grad)


class CompressionThread(threading.Thread):
    def __init__(self, device: torch.device, keep: float):
        super().__init__(daemon=True)
        self.device = device
        self.feedback = ErrorFeedback(keep)
        self.jobs: "queue.Queue" = queue.Queue()
        self.count = 0

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            param = self.jobs.get()
            try:
                if param is None:
                    return
                param.grad.copy_(self.feedback(id(param), param.grad))
                self.count += 1
            finally:
                self.jobs.task_done()


class CompressedTrainer:
    def __init__(self, model: nn.Module, device: torch.device, lr: float = 1e-2):
        self.model = model
        self.params: List[nn.Parameter] = list(model.parameters())
        self.worker = CompressionThread(device, keep=0.05)
        self.optimizer = torch.optim.SGD(self.params, lr=lr, momentum=0.9)
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._submit)
        self.worker.start()

    def _submit(self, param: nn.Parameter):
        self.worker.jobs.put(param)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.worker.jobs.join()
        self.optimizer.step()
        return loss.detach()

    def close(self):
        self.worker.jobs.put(None)
        self.worker.join()


def main(steps: int = 40):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    model = nn.Sequential(
        nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)
    ).to(device)
    trainer = CompressedTrainer(model, device)
    losses = []
    for _ in range(steps):
        x = torch.randn(256, 512, device=device)
        losses.append(trainer.step(x, x[:, :8].tanh()))
    trainer.close()
    print(torch.stack(losses).tolist()[-1], trainer.worker.count)


if __name__ == "__main__":
    main()
