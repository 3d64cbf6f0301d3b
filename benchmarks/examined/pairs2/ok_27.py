"""Two-device model parallelism with a staging buffer on the second device."""
import torch
import torch.nn as nn


class DeviceBoundary:
    def __init__(self, shape, src="cuda:0", dst="cuda:1"):
        self.src, self.dst = torch.device(src), torch.device(dst)
        self.buffer = torch.empty(shape, device=self.dst)
        self.compute = torch.cuda.Stream(self.dst)
        self.arrived = torch.cuda.Event()
        self.released = torch.cuda.Event()

    def transfer(self, hidden):
        stream = torch.cuda.current_stream(self.dst)
        stream.wait_event(self.released)
        self.buffer.copy_(hidden, non_blocking=True)
        self.arrived.record(stream)

    def consume(self, fn):
        with torch.cuda.stream(self.compute):
            self.compute.wait_event(self.arrived)
            out = fn(self.buffer)
            self.released.record(self.compute)
        return out


@torch.no_grad()
def main():
    lower = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()).to("cuda:0")
    upper = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()).to("cuda:1")
    torch.cuda.synchronize("cuda:1")
    boundary = DeviceBoundary((256, 2048))
    totals = []
    for _ in range(64):
        x = torch.randn(256, 2048, device="cuda:0")
        boundary.transfer(lower(x))
        totals.append(boundary.consume(lambda h: upper(h).mean()))
    boundary.compute.synchronize()
    print(torch.stack(totals).mean().item())


if __name__ == "__main__":
    main()
