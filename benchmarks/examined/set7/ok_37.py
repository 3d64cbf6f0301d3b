from typing import List, Sequence

import torch


class TwoDeviceStage(torch.nn.Module):
    def __init__(self, layers: Sequence[torch.nn.Module], device: torch.device):
        super().__init__()
        self.body = torch.nn.Sequential(*layers).to(device).eval()
        self.device = device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class MicroBatchPipeline:
    """Two stages on two devices; every micro batch has a stream on either device."""

    def __init__(self, first: TwoDeviceStage, second: TwoDeviceStage, n_lanes: int = 2):
        self.first = first
        self.second = second
        self.lanes = [
            (torch.cuda.Stream(first.device), torch.cuda.Stream(second.device)) for _ in range(n_lanes)
        ]

    def _run_lane(self, lane: int, x: torch.Tensor) -> torch.Tensor:
        s0, s1 = self.lanes[lane]
        with torch.cuda.stream(s0), torch.cuda.stream(s1):
            h = self.first(x)
            h = h.to(self.second.device, non_blocking=True)
            return self.second(h)

    @torch.inference_mode()
    def __call__(self, batch: torch.Tensor, n_micro: int) -> torch.Tensor:
        d0, d1 = self.first.device, self.second.device
        batch = batch.to(d0)
        ready = torch.cuda.current_stream(d0).record_event()
        for s0, s1 in self.lanes:
            s0.wait_event(ready)
            s1.wait_stream(torch.cuda.current_stream(d1))
        outs: List[torch.Tensor] = []
        for i, x in enumerate(batch.chunk(n_micro)):
            lane = i % len(self.lanes)
            x.record_stream(self.lanes[lane][0])
            outs.append(self._run_lane(lane, x))
        last = torch.cuda.current_stream(d1)
        for _, s1 in self.lanes:
            last.wait_stream(s1)
        for out in outs:
            out.record_stream(last)
        return torch.cat(outs)


def build(width: int, depth: int) -> MicroBatchPipeline:
    def block():
        return torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                   torch.nn.Linear(4 * width, width))

    first = TwoDeviceStage([block() for _ in range(depth)], torch.device("cuda", 0))
    second = TwoDeviceStage([block() for _ in range(depth)], torch.device("cuda", 1))
    for device in (first.device, second.device):
        torch.cuda.synchronize(device)
    return MicroBatchPipeline(first, second)
