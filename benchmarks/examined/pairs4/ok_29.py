"""Live audio: chunks land in a device ring, features are taken from it."""
import torch
from torch import nn


class DeviceRing:
    """Chunk slots on the device; each slot has an arrival and a release marker."""

    def __init__(self, slots, chunk):
        self.chunk = chunk
        self.data = torch.zeros(slots, chunk, device="cuda")
        self.host = torch.zeros(slots, chunk, pin_memory=True)
        self.arrived = [torch.cuda.Event() for _ in range(slots)]
        self.released = [torch.cuda.Event() for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def write(self, k, samples):
        i = k % len(self.data)
        self.arrived[i].synchronize()
        self.host[i].copy_(samples)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.released[i])
            self.data[i].copy_(self.host[i], non_blocking=True)
            self.arrived[i].record()

    def window(self, k, count):
        picks = [(k - j) % len(self.data) for j in reversed(range(count))]
        current = torch.cuda.current_stream()
        for i in picks:
            current.wait_event(self.arrived[i])
        joined = torch.cat([self.data[i] for i in picks])
        for i in picks:
            self.released[i].record(current)
        return joined


class KeywordNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 64, 400, 160)
        self.gru = nn.GRU(64, 64, batch_first=True)
        self.out = nn.Linear(64, 12)

    def forward(self, wave):
        h = self.conv(wave[None, None]).relu().transpose(1, 2)
        return self.out(self.gru(h)[0][:, -1])


@torch.inference_mode()
def listen(chunks, count=4):
    net = KeywordNet().cuda().eval()
    ring = DeviceRing(8, 1600)
    votes = torch.zeros(12, device="cuda")
    for k, samples in enumerate(chunks):
        ring.write(k, samples)
        if k + 1 >= count:
            votes += net(ring.window(k, count)).softmax(-1)[0]
    return votes.tolist()


if __name__ == "__main__":
    print(listen(torch.randn(1600) for _ in range(1000)))
