"""Knowledge distillation: teacher logits are computed beside the student."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TeacherRunner:
    def __init__(self, teacher):
        self.teacher = teacher.eval().requires_grad_(False)
        self.stream = torch.cuda.Stream()

    def launch(self, x):
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.stream.wait_stream(torch.cuda.current_stream())
            logits = self.teacher(x)
        x.record_stream(self.stream)
        return logits

    def collect(self, logits):
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        logits.record_stream(current)
        return logits


def kd_loss(student, teacher, temperature=4.0):
    p = F.log_softmax(student / temperature, dim=-1)
    q = F.softmax(teacher / temperature, dim=-1)
    return F.kl_div(p, q, reduction="batchmean") * temperature ** 2


class Distiller:
    def __init__(self, teacher, student, lr=1e-3):
        self.runner = TeacherRunner(teacher)
        self.student = student
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=lr)

    def step(self, host_batch):
        x = host_batch.to("cuda", non_blocking=True)
        x = F.layer_norm(x, x.shape[1:])
        pending = self.runner.launch(x)
        out = self.student(x)
        loss = kd_loss(out, self.runner.collect(pending))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    teacher = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(12)],
                            nn.Linear(2048, 1000)).cuda()
    student = nn.Sequential(nn.Linear(2048, 512), nn.ReLU(), nn.Linear(512, 1000)).cuda()
    torch.cuda.synchronize()
    distiller = Distiller(teacher, student)
    losses = []
    for _ in range(1000):
        losses.append(distiller.step(torch.randn(512, 2048).pin_memory()))
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
