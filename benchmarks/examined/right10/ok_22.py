"""Run a step; when memory runs out, drain both streams and try again with smaller pieces."""
import torch
from torch import nn


class Evaluator:
    def __init__(self, model: nn.Module):
        self.model = model
        self.copy = torch.cuda.Stream()

    def _run(self, batch: torch.Tensor, pieces: int) -> torch.Tensor:
        main = torch.cuda.current_stream()
        outs = []
        for part in batch.chunk(pieces):
            with torch.cuda.stream(self.copy):
                dev = part.to("cuda", non_blocking=True)
            main.wait_stream(self.copy)
            dev.record_stream(main)
            outs.append(self.model(dev))
        return torch.cat(outs)

    @torch.inference_mode()
    def __call__(self, batch: torch.Tensor, retries: int = 4) -> torch.Tensor:
        pieces = 1
        for attempt in range(retries):
            try:
                return self._run(batch, pieces)
            except torch.cuda.OutOfMemoryError:
                if attempt == retries - 1:
                    raise
                self.copy.synchronize()
                torch.cuda.current_stream().synchronize()
                torch.cuda.empty_cache()
                pieces *= 2
        raise RuntimeError("unreachable")


def main():
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 3, 3, padding=1)).cuda().eval()
    ev = Evaluator(model)
    batch = torch.rand(64, 3, 256, 256).pin_memory()
    for i in range(5):
        y = ev(batch)
        print(i, y.mean().item())
        batch.add_(y.mean().item())


if __name__ == "__main__":
    main()
