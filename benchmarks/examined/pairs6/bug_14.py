"""Captured forward and backward of a small transformer; clipping and update stay eager."""
import torch
import torch.nn as nn


class ForwardBackwardGraph:
    def __init__(self, model, loss_fn, sample):
        self.model, self.loss_fn = model, loss_fn
        self.inputs = sample.clone()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._run()
        torch.cuda.current_stream().wait_stream(warm)
        model.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._run()

    def _run(self):
        loss = self.loss_fn(self.model(self.inputs), self.inputs)
        loss.backward()
        return loss

    def __call__(self, batch):
        self.inputs.copy_(batch)
        self.graph.replay()
        return self.loss


class Trainer:
    def __init__(self, dim=256, layers=4, lr=3e-4, max_norm=1.0):
        layer = nn.TransformerEncoderLayer(dim, 8, 4 * dim, dropout=0.0, batch_first=True)
        self.model = nn.TransformerEncoder(layer, layers).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.max_norm = max_norm
        self.step_fn = ForwardBackwardGraph(self.model, nn.MSELoss(), torch.randn(16, 64, dim, device="cuda"))

    def train_step(self, batch):
        self.optimizer.zero_grad()
        loss = self.step_fn(batch)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return loss


def main():
    trainer = Trainer()
    for step in range(1000):
        loss = trainer.train_step(torch.randn(16, 64, 256, device="cuda"))
        if step % 100 == 0:
            print(step, loss.item())
    torch.save(trainer.model.state_dict(), "encoder.pt")


if __name__ == "__main__":
    main()
