"""Molecular dynamics on the GPU with a trajectory log written by a background thread."""
import queue
import threading
from typing import BinaryIO

import numpy as np
import torch


class TrajectoryLog:
    def __init__(self, sink: BinaryIO, particles: int, device: torch.device, chunks: int = 4):
        self.stream = torch.cuda.Stream(device)
        self._sink = sink
        self._free: "queue.Queue[torch.Tensor]" = queue.Queue()
        self._jobs: queue.Queue = queue.Queue()
        for _ in range(chunks):
            self._free.put(torch.empty(particles, 3, pin_memory=True))
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def record(self, step: int, positions: torch.Tensor) -> None:
        snapshot = positions.clone()
        chunk = self._free.get()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            chunk.copy_(snapshot, non_blocking=True)
            done = self.stream.record_event()
        snapshot.record_stream(self.stream)
        self._jobs.put((step, chunk, done))

    def _write_all(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            step, chunk, done = job
            done.synchronize()
            self._sink.write(np.int64(step).tobytes())
            self._sink.write(chunk.numpy().tobytes())
            self._free.put(chunk)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        self._sink.flush()


class LangevinIntegrator:
    def __init__(self, particles: int, box: float, device: torch.device, dt: float = 1e-3, friction: float = 1.0):
        self.dt, self.box = dt, box
        self.damping = float(np.exp(-friction * dt))
        self.kick = float(np.sqrt(1.0 - self.damping**2))
        self.positions = torch.rand(particles, 3, device=device) * box
        self.velocities = torch.randn(particles, 3, device=device)
        self.centers = torch.rand(64, 3, device=device) * box

    def forces(self) -> torch.Tensor:
        delta = self.positions[:, None, :] - self.centers[None]
        delta -= self.box * torch.round(delta / self.box)
        r2 = delta.square().sum(dim=-1, keepdim=True) + 0.5
        return (delta / r2.square()).sum(dim=1)

    def step(self) -> None:
        self.velocities.add_(self.forces(), alpha=0.5 * self.dt)
        self.positions.add_(self.velocities, alpha=0.5 * self.dt)
        self.velocities.mul_(self.damping).add_(torch.randn_like(self.velocities), alpha=self.kick)
        self.positions.add_(self.velocities, alpha=0.5 * self.dt).remainder_(self.box)
        self.velocities.add_(self.forces(), alpha=0.5 * self.dt)


def main() -> None:
    device = torch.device("cuda")
    integrator = LangevinIntegrator(200_000, 20.0, device)
    with open("/tmp/trajectory.bin", "wb") as sink:
        log = TrajectoryLog(sink, 200_000, device)
        for step in range(400):
            integrator.step()
            if step % 5 == 0:
                log.record(step, integrator.positions)
        log.close()
    print(integrator.positions.mean().item())


if __name__ == "__main__":
    main()
