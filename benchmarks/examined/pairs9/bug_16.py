"""Teacher-student distillation: the momentum teacher follows the student on its own stream."""
import copy

import torch
from torch import nn


class MomentumTeacher:
    def __init__(self, student, momentum):
        self.student = student
        self.net = copy.deepcopy(student)
        for p in self.net.parameters():
            p.requires_grad_(False)
        self.momentum = momentum
        self.stream = torch.cuda.Stream()
        self.updated = torch.cuda.Event()

    @torch.no_grad()
    def update(self):
        main = torch.cuda.current_stream()
        main.wait_event(self.updated)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for t, s in zip(self.net.parameters(), self.student.parameters()):
                t.mul_(self.momentum).add_(s, alpha=1 - self.momentum)
            self.updated.record()

    @torch.no_grad()
    def targets(self, x):
        with torch.cuda.stream(self.stream):
            self.stream.wait_stream(torch.cuda.default_stream())
            out = self.net(x)
        torch.cuda.current_stream().wait_stream(self.stream)
        out.record_stream(torch.cuda.current_stream())
        return out.softmax(-1)


class Trainer:
    def __init__(self, dim=768, classes=4096):
        self.student = nn.Sequential(nn.Linear(dim, 4096), nn.GELU(), nn.Linear(4096, classes)).cuda()
        self.teacher = MomentumTeacher(self.student, 0.996)
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.05)

    def warmup(self, batches):
        for x in batches:
            loss = self.student(x).logsumexp(-1).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.teacher.update()

    def distill(self, x):
        target = self.teacher.targets(x)
        loss = -(target * self.student(x).log_softmax(-1)).sum(-1).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.teacher.update()
        return loss.detach()


def main():
    trainer = Trainer()
    data = [torch.randn(512, 768, device="cuda") for _ in range(32)]
    trainer.warmup(data)
    losses = [trainer.distill(x) for x in data]
    print(torch.stack(losses).cpu())


if __name__ == "__main__":
    main()
