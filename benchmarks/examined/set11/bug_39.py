"""Two devices: a student is trained on one, the teacher's features are produced on the other."""
from typing import Iterable, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class FeatureMailbox:
    """Fixed buffer on the student's device into which the teacher's features are copied."""

    def __init__(self, shape: Tuple[int, ...], dtype: torch.dtype, device: torch.device):
        self.buffer = torch.zeros(shape, dtype=dtype, device=device)

    def post(self, features: torch.Tensor) -> torch.Tensor:
        view = self.buffer[: features.shape[0]]
        view.copy_(features, non_blocking=True)
        return view


class DistillTrainer:
    def __init__(self, student: nn.Module, teacher: nn.Module, student_device: torch.device,
                 teacher_device: torch.device, feature_shape: Tuple[int, ...], lr: float):
        self.student_device, self.teacher_device = student_device, teacher_device
        self.student = student.to(student_device)
        self.teacher = teacher.to(teacher_device).eval()
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=lr)
        self.mailbox = FeatureMailbox(feature_shape, torch.float32, student_device)
        self.stats_stream = torch.cuda.Stream(student_device)
        self.running_mean = torch.zeros(feature_shape[-1], device=student_device)
        self.running_sq = torch.zeros(feature_shape[-1], device=student_device)
        self.stats_stream.wait_stream(torch.cuda.current_stream(student_device))

    def _posted(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.student_device))
        return event

    @torch.no_grad()
    def _update_stats(self, features: torch.Tensor, posted: torch.cuda.Event) -> None:
        with torch.cuda.stream(self.stats_stream):
            self.stats_stream.wait_event(posted)
            flat = features.flatten(0, -2)
            self.running_mean.lerp_(flat.mean(0), 0.01)
            self.running_sq.lerp_(flat.square().mean(0), 0.01)

    @torch.no_grad()
    def _teacher_features(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.teacher(inputs.to(self.teacher_device, non_blocking=True)).float()

    def train_step(self, inputs: torch.Tensor) -> torch.Tensor:
        features = self.mailbox.post(self._teacher_features(inputs))
        self._update_stats(features, self._posted())
        output = self.student(inputs.to(self.student_device, non_blocking=True))
        loss = F.mse_loss(output, features)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader: Iterable[torch.Tensor], log_every: int = 100) -> list:
        torch.cuda.set_device(self.student_device)
        losses = []
        for i, inputs in enumerate(loader):
            loss = self.train_step(inputs)
            if i % log_every == 0:
                losses.append(loss.item())
        torch.cuda.synchronize(self.student_device)
        return losses
