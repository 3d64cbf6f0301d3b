"""Self-supervised training with a momentum teacher."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class MomentumTeacher(nn.Module):
    def __init__(self, student, momentum=0.996):
        super().__init__()
        self.net = copy.deepcopy(student).requires_grad_(False)
        self.student_params = list(student.parameters())
        self.momentum = momentum
        self.update_stream = torch.cuda.Stream()

    @torch.no_grad()
    def update(self):
        self.update_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.update_stream):
            for t, s in zip(self.net.parameters(), self.student_params):
                t.mul_(self.momentum).add_(s, alpha=1 - self.momentum)

    @torch.no_grad()
    def forward(self, x):
        return self.net(x)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.update_stream)


class Trainer:
    def __init__(self, dim=512):
        self.student = nn.Sequential(nn.Linear(dim, 2048), nn.GELU(), nn.Linear(2048, 256)).cuda()
        self.teacher = MomentumTeacher(self.student).cuda()
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.03, momentum=0.9)
        self.dim = dim

    def step(self):
        view_a = torch.randn(512, self.dim, device="cuda")
        view_b = view_a + 0.1 * torch.randn_like(view_a)
        pred = F.normalize(self.student(view_a), dim=-1)
        target = F.normalize(self.teacher(view_b), dim=-1)
        loss = 2 - 2 * (pred * target).sum(-1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.teacher.join()
        self.teacher.update()


def main():
    trainer = Trainer()
    for _ in range(2000):
        trainer.step()
    torch.cuda.synchronize()
    torch.save(trainer.teacher.net.state_dict(), "teacher.pt")


if __name__ == "__main__":
    main()
