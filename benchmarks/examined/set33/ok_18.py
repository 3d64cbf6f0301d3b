"""Learning from a running simulation: CuPy fields are handed to PyTorch through DLPack."""
import cupy as cp
import torch
from torch import nn

_diffuse = cp.ElementwiseKernel(
    "raw float32 u, int32 rows, int32 cols, float32 k",
    "float32 out",
    """
    int r = i / cols, c = i % cols;
    float m = u[i];
    float n = u[((r + rows - 1) % rows) * cols + c] + u[((r + 1) % rows) * cols + c];
    float w = u[r * cols + (c + cols - 1) % cols] + u[r * cols + (c + 1) % cols];
    out = m + k * (n + w - 4.0f * m);
    """,
    "diffuse",
)


class Simulation:
    """Periodic diffusion; frames are given away without a copy."""

    def __init__(self, rows=256, cols=256, seed=0):
        self.rows, self.cols = rows, cols
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.random.RandomState(seed).rand(rows, cols).astype(cp.float32)
        self.stream.synchronize()

    def _follow_consumer(self):
        consumer = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        event = cp.cuda.Event(disable_timing=True)
        event.record(consumer)
        self.stream.wait_event(event)

    def next_frame(self, substeps=4):
        self._follow_consumer()
        with self.stream:
            for _ in range(substeps):
                out = cp.empty_like(self.u)
                _diffuse(self.u, self.rows, self.cols, 0.2, out)
                self.u = out
            frame = (self.u - self.u.mean()) * 4.0
            return torch.from_dlpack(frame)


class Surrogate(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, padding_mode="circular"), nn.GELU(),
            nn.Conv2d(channels, 1, 3, padding=1, padding_mode="circular"),
        )

    def forward(self, field):
        return field + self.net(field[None, None])[0, 0]


def train(steps=200, lr=1e-3):
    sim = Simulation()
    model = Surrogate().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    current = sim.next_frame()
    for _ in range(steps):
        prediction = model(current)
        target = sim.next_frame()
        loss = nn.functional.mse_loss(prediction, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        current = target
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train()[-1])
