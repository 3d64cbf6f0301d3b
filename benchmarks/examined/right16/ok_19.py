"""Two-GPU pipeline of a sequential model with micro-batches."""
from __future__ import annotations

import torch


class TwoStage:
    def __init__(self, front: torch.nn.Module, back: torch.nn.Module, micro: int = 4):
        self.dev0 = torch.device("cuda", 0)
        self.dev1 = torch.device("cuda", 1)
        self.front = front.to(self.dev0).eval()
        self.back = back.to(self.dev1).eval()
        self.micro = micro
        self.stream0 = torch.cuda.Stream(device=self.dev0)
        self.stream1 = torch.cuda.Stream(device=self.dev1)

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is on the first GPU; the result is on the second."""
        caller0 = torch.cuda.current_stream(self.dev0)
        caller1 = torch.cuda.current_stream(self.dev1)
        self.stream0.wait_stream(caller0)
        self.stream1.wait_stream(caller1)
        x.record_stream(self.stream0)
        outputs: list[torch.Tensor] = []
        try:
            with torch.cuda.stream(self.stream1), torch.cuda.stream(self.stream0):
                for chunk in x.chunk(self.micro):
                    hidden = self.front(chunk)
                    moved = hidden.to(self.dev1, non_blocking=True)
                    with torch.cuda.device(self.dev1):
                        outputs.append(self.back(moved))
                with torch.cuda.device(self.dev1):
                    result = torch.cat(outputs)
        finally:
            caller0.wait_stream(self.stream0)
            caller1.wait_stream(self.stream1)
        result.record_stream(caller1)
        return result


def build(width: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    front = torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)
    )
    back = torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, 10))
    return front, back


def main() -> None:
    if torch.cuda.device_count() < 2:
        raise SystemExit("two GPUs are needed")
    torch.manual_seed(0)
    model = TwoStage(*build(512))
    total = torch.zeros(10, device=model.dev1)
    for _ in range(20):
        x = torch.randn(256, 512, device=model.dev0)
        y = model(x)
        total += y.softmax(dim=1).sum(dim=0)
    side = torch.cuda.Stream(device=model.dev0)
    side.wait_stream(torch.cuda.current_stream(model.dev0))
    with torch.cuda.stream(side):
        x = torch.randn(64, 512, device=model.dev0)
        y = model(x)
    total += y.softmax(dim=1).sum(dim=0)
    print(total.tolist())


if __name__ == "__main__":
    main()
