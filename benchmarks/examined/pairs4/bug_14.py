"""Cloth simulator: frames are exported in groups to disk."""
import numpy as np
import torch


class FrameExporter:
    """Groups of frames, written after the group's transfers."""

    def __init__(self, vertices, group=6, buffers=4):
        self.group = group
        self.buffers = [torch.empty(vertices, 3, pin_memory=True) for _ in range(buffers)]
        self.stream = torch.cuda.Stream()
        self.waiting = []
        self.count = 0

    def export(self, vertices):
        buffer = self.buffers[self.count % len(self.buffers)]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            buffer.copy_(vertices, non_blocking=True)
        vertices.record_stream(self.stream)
        self.waiting.append((self.count, buffer))
        self.count += 1
        if len(self.waiting) == self.group:
            self.flush()

    def flush(self):
        self.stream.synchronize()
        for index, buffer in self.waiting:
            np.save(f"frame_{index:05d}.npy", buffer.numpy())
        self.waiting.clear()


class Cloth:
    def __init__(self, side):
        xs = torch.linspace(0, 1, side, device="cuda")
        grid = torch.stack(torch.meshgrid(xs, xs, indexing="ij"), -1).reshape(-1, 2)
        self.x = torch.cat([grid, torch.zeros_like(grid[:, :1])], 1)
        self.v = torch.zeros_like(self.x)

    def step(self, dt=0.01):
        gravity = self.x.new_tensor([0.0, 0.0, -9.8])
        self.v = 0.999 * self.v + dt * (gravity - 20 * self.x)
        self.x = self.x + dt * self.v
        return self.x


def main():
    cloth = Cloth(512)
    exporter = FrameExporter(512 * 512)
    for _ in range(120):
        exporter.export(cloth.step())
    exporter.flush()


if __name__ == "__main__":
    main()
