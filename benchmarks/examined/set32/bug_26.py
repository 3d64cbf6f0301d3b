"""Autoregressive weather roll-out with an exported network."""
from datetime import timedelta

import numpy as np
import onnxruntime as ort
import torch


class Normalizer:
    def __init__(self, mean, std, device):
        self.mean = torch.as_tensor(mean, dtype=torch.float32, device=device).view(-1, 1, 1)
        self.std = torch.as_tensor(std, dtype=torch.float32, device=device).view(-1, 1, 1)

    def encode(self, x):
        return (x - self.mean) / self.std

    def decode(self, x):
        return x * self.std + self.mean


class OnnxForecast:
    def __init__(self, path, mean, std, device="cuda:0"):
        self.device = torch.device(device)
        index = self.device.index or 0
        self.session = ort.InferenceSession(
            path, providers=[("CUDAExecutionProvider", {"device_id": index})]
        )
        self.index = index
        self.norm = Normalizer(mean, std, self.device)
        self.in_name = self.session.get_inputs()[0].name
        self.out_name = self.session.get_outputs()[0].name

    def _bind(self, io, name, tensor, output=False):
        fn = io.bind_output if output else io.bind_input
        fn(
            name=name,
            device_type="cuda",
            device_id=self.index,
            element_type=np.float32,
            shape=tuple(tensor.shape),
            buffer_ptr=tensor.data_ptr(),
        )

    def step(self, previous, current):
        x = torch.cat([self.norm.encode(previous), self.norm.encode(current)]).unsqueeze(0).contiguous()
        y = torch.empty((1,) + tuple(current.shape), dtype=torch.float32, device=self.device)
        io = self.session.io_binding()
        self._bind(io, self.in_name, x)
        self._bind(io, self.out_name, y, output=True)
        self.session.run_with_iobinding(io)
        io.synchronize_outputs()
        return self.norm.decode(y[0])

    @torch.inference_mode()
    def rollout(self, previous, current, start, steps):
        previous = previous.to(self.device)
        current = current.to(self.device)
        when = start
        yield when, current
        for _ in range(steps):
            nxt = self.step(previous, current)
            previous, current = current, nxt
            when = when + timedelta(hours=6)
            yield when, current


def forecast(path, states, mean, std, start, steps, sink):
    model = OnnxForecast(path, mean, std)
    for when, field in model.rollout(states[0], states[1], start, steps):
        sink.append((when, field.amax(dim=(-2, -1))))
    return torch.stack([v for _, v in sink]).cpu()
