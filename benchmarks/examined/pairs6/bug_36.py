"""Multi crop self distillation with a graphed teacher forward."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphedTeacher:
    def __init__(self, net, batch, dim):
        self.net = net.requires_grad_(False)
        self.crop = torch.zeros(batch, dim, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(2):
                self.net(self.crop)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.probs = F.softmax(self.net(self.crop) / 0.04, dim=-1)

    def __call__(self, crop):
        self.crop.copy_(crop)
        self.graph.replay()
        return self.probs.detach()


class MultiCropTrainer:
    def __init__(self, dim=384, prototypes=4096, batch=256):
        self.student = nn.Sequential(nn.Linear(dim, 2048), nn.GELU(), nn.Linear(2048, prototypes)).cuda()
        self.teacher = GraphedTeacher(copy.deepcopy(self.student), batch, dim)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=5e-4)

    def step(self, global_crops, local_crops):
        targets = [self.teacher(crop) for crop in global_crops]
        loss, terms = 0.0, 0
        for j, crop in enumerate(global_crops + local_crops):
            logp = F.log_softmax(self.student(crop) / 0.1, dim=-1)
            for i, target in enumerate(targets):
                if i == j:
                    continue
                loss = loss - (target * logp).sum(-1).mean()
                terms += 1
        self.optimizer.zero_grad(set_to_none=True)
        (loss / terms).backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.teacher.net.parameters()), list(self.student.parameters()), 0.004)


def main(steps=1000):
    trainer = MultiCropTrainer()
    for _ in range(steps):
        base = torch.randn(256, 384, device="cuda")
        crops = [base + 0.1 * torch.randn_like(base) for _ in range(6)]
        trainer.step(crops[:2], crops[2:])
    torch.save(trainer.student.state_dict(), "student.pt")


if __name__ == "__main__":
    main()
