from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class TeacherTicket:
    logits: torch.Tensor
    ready: torch.cuda.Event

    def claim(self):
        stream = torch.cuda.current_stream()
        self.ready.wait(stream)
        self.logits.record_stream(stream)
        return self.logits


class Teacher:
    def __init__(self, net):
        self.net = net.eval().requires_grad_(False)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.tickets: dict[int, TeacherTicket] = {}

    def submit(self, key, x):
        arrived = torch.cuda.current_stream().record_event()
        self.stream.wait_event(arrived)
        x.record_stream(self.stream)
        with torch.cuda.stream(self.stream), torch.no_grad():
            logits = self.net(x)
            ready = torch.cuda.Event()
            ready.record()
        self.tickets[key] = TeacherTicket(logits, ready)

    def logits(self, key):
        return self.tickets.pop(key).claim()


class Distiller:
    def __init__(self, student, teacher, opt, accum=4, temp=2.0):
        self.student, self.teacher, self.opt = student, teacher, opt
        self.accum, self.temp = accum, temp

    def _loss(self, student_logits, teacher_logits, y):
        kd = F.kl_div(
            F.log_softmax(student_logits / self.temp, -1),
            F.softmax(teacher_logits / self.temp, -1),
            reduction="batchmean",
        )
        return kd * self.temp ** 2 + F.cross_entropy(student_logits, y)

    def step(self, batches):
        for key, (x, _) in enumerate(batches):
            self.teacher.submit(key, x)
        for key, (x, y) in enumerate(batches):
            out = self.student(x)
            loss = self._loss(out, self.teacher.logits(key), y)
            (loss / self.accum).backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)


def fit(student, teacher_net, loader, accum=4):
    opt = torch.optim.AdamW(student.parameters())
    distiller = Distiller(student, Teacher(teacher_net), opt, accum)
    window = []
    for x, y in loader:
        window.append((x.cuda(), y.cuda()))
        if len(window) == accum:
            distiller.step(window)
            window = []
