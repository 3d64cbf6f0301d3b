"""Multimodal batches with lazily accessed fields."""
import torch
from torch import nn


class LazyField:
    def __init__(self, host, stream):
        with torch.cuda.stream(stream):
            self._device = host.to("cuda", non_blocking=True)
            self._arrived = stream.record_event()
        self._seen = set()

    def get(self):
        current = torch.cuda.current_stream()
        if current not in self._seen:
            current.wait_event(self._arrived)
            self._device.record_stream(current)
            self._seen.add(current)
        return self._device


class ClipBatch:
    def __init__(self, video, audio, text, streams):
        self._video = LazyField(video, streams[0])
        self._audio = LazyField(audio, streams[1])
        self._text = LazyField(text, streams[1])

    @property
    def video(self):
        return self._video.get()

    @property
    def audio(self):
        return self._audio.get()

    @property
    def text(self):
        return self._text.get()


def loader(n):
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(n):
        yield ClipBatch(
            torch.rand(8, 3, 8, 112, 112).pin_memory(),
            torch.randn(8, 16000).pin_memory(),
            torch.randint(0, 1000, (8, 32)).pin_memory(),
            streams,
        )


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = nn.Sequential(nn.Conv3d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten())
        self.a = nn.Linear(16000, 16)
        self.t = nn.EmbeddingBag(1000, 16)

    def forward(self, batch):
        return (self.t(batch.text) + self.a(batch.audio)) * self.v(batch.video)


def main():
    model = Fusion().cuda()
    opt = torch.optim.Adam(model.parameters())
    for batch in loader(200):
        loss = model(batch).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
