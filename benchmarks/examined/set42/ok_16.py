"""Weight casting through two standing device buffers, one per offload stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CastLane:
    """An offload stream and the device memory that belongs to it."""

    def __init__(self, device, numel):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.raw = torch.empty(numel, dtype=torch.float16, device=device)
        self.cast = torch.empty(numel, dtype=torch.float32, device=device)

    def load(self, host):
        n = host.numel()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.raw[:n].copy_(host.view(-1), non_blocking=True)
            self.cast[:n].copy_(self.raw[:n])
        return self.cast[:n].view(host.shape)

    def join(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class LaneManager:
    def __init__(self, device, numel, lanes=2):
        self.lanes = [CastLane(device, numel) for _ in range(lanes)]
        self.count = 0

    def take(self):
        lane = self.lanes[self.count % len(self.lanes)]
        self.count += 1
        return lane


class HostLinear(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = torch.randn(width, width) / width ** 0.5
        self.host_weight = w.half().pin_memory()
        self.scale = nn.Parameter(torch.ones(width))


class Network(nn.Module):
    def __init__(self, width, depth, device):
        super().__init__()
        self.layers = nn.ModuleList([HostLinear(width) for _ in range(depth)]).to(device)
        self.manager = LaneManager(device, width * width)

    def forward(self, x):
        lane = self.manager.take()
        weight = lane.load(self.layers[0].host_weight)
        for i, layer in enumerate(self.layers):
            ahead = None
            if i + 1 < len(self.layers):
                ahead_lane = self.manager.take()
                ahead = ahead_lane.load(self.layers[i + 1].host_weight)
            lane.join()
            x = torch.relu(F.linear(x, weight)) * layer.scale
            if ahead is not None:
                lane, weight = ahead_lane, ahead
        return x


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    net = Network(1024, 9, device)
    x = torch.randn(128, 1024, device=device)
    for _ in range(5):
        x = net(x)
        x = x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    print(x.mean().item())


if __name__ == "__main__":
    main()
