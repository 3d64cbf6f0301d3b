"""Ensemble distillation targets from members on separate streams."""
from contextlib import ExitStack

import torch
import torch.nn as nn


class TeacherEnsemble:
    def __init__(self, members):
        self.members = [m.requires_grad_(False) for m in members]
        self.streams = [torch.cuda.Stream() for _ in members]
        self.pending = None

    def close(self):
        if self.pending is not None:
            self.pending.close()
            self.pending = None

    @torch.no_grad()
    def targets(self, x):
        main = torch.cuda.current_stream()
        outputs = []
        with ExitStack() as stack:
            for member, stream in zip(self.members, self.streams):
                stream.wait_stream(main)
                stack.callback(main.wait_stream, stream)
                with torch.cuda.stream(stream):
                    out = member(x).softmax(-1)
                out.record_stream(main)
                outputs.append(out)
            self.pending = stack.pop_all()
        return torch.stack(outputs).mean(0)


def make_net(hidden):
    return nn.Sequential(nn.Linear(256, hidden), nn.ReLU(), nn.Linear(hidden, 50)).cuda()


def distill(steps=500):
    teachers = TeacherEnsemble([make_net(h) for h in (2048, 4096, 8192)])
    student = make_net(128)
    opt = torch.optim.Adam(student.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(1024, 256, device="cuda")
        soft = teachers.targets(x)
        loss = nn.functional.kl_div(student(x).log_softmax(-1), soft, reduction="batchmean")
        teachers.close()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    distill()
