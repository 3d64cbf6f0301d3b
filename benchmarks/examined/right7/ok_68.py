"""Threads with a stream each, joined by the coordinator."""
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch


class LocalStreams(threading.local):
    def __init__(self):
        self.stream = torch.cuda.Stream()


class TileRenderer:
    def __init__(self, workers=4):
        self.local = LocalStreams()
        self.pool = ThreadPoolExecutor(workers)

    def _render(self, canvas, rows, start: torch.cuda.Event):
        stream = self.local.stream
        stream.wait_event(start)
        with torch.cuda.stream(stream):
            view = canvas[rows]
            ys = torch.arange(rows.start, rows.stop, device="cuda").unsqueeze(1)
            xs = torch.arange(canvas.shape[1], device="cuda").unsqueeze(0)
            view.add_(torch.sin(xs * 0.01) * torch.cos(ys * 0.02))
            return stream.record_event()

    def render(self, canvas: torch.Tensor, tile=64) -> torch.Tensor:
        current = torch.cuda.current_stream()
        start = current.record_event()
        futures = [
            self.pool.submit(self._render, canvas, slice(r, r + tile), start)
            for r in range(0, canvas.shape[0], tile)
        ]
        for fut in as_completed(futures):
            current.wait_event(fut.result())
        return canvas

    def close(self):
        self.pool.shutdown()


def main():
    renderer = TileRenderer()
    canvas = torch.zeros(512, 512, device="cuda")
    for _ in range(5):
        canvas = renderer.render(canvas) * 0.9
    print(canvas.abs().sum().item())
    renderer.close()


if __name__ == "__main__":
    main()
