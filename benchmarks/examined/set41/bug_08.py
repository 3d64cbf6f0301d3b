"""GPU image decoding with a private decoder stream and pooled output frames."""
import torch
import torch.nn as nn


class JpegLikeDecoder:
    """Turns coefficient planes into RGB frames on its own stream."""

    def __init__(self, height, width, device="cuda"):
        self.h, self.w = height, width
        self.device = torch.device(device)
        self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            self._basis = torch.randn(3, 3, device=self.device)
        self._stream.synchronize()

    def _unpack(self, blob):
        planes = blob.to(self.device, non_blocking=True).float()
        return planes.view(3, self.h * self.w).sub_(128.0)

    def decode(self, blobs):
        caller = torch.cuda.current_stream(self.device)
        frames = [
            torch.empty(3, self.h * self.w, device=self.device)
            for _ in blobs
        ]
        with torch.cuda.stream(self._stream):
            for blob, frame in zip(blobs, frames):
                coeff = self._unpack(blob)
                torch.matmul(self._basis, coeff, out=frame)
        caller.wait_stream(self._stream)
        return [f.view(3, self.h, self.w) for f in frames]


class Thumbnailer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.body = nn.Sequential(*[nn.Conv2d(64, 64, 3, padding=1) for _ in range(6)])

    def forward(self, x):
        return self.body(torch.relu(self.stem(x))).mean(dim=(2, 3))


class Pipeline:
    def __init__(self, size=512):
        self.decoder = JpegLikeDecoder(size, size)
        self.model = Thumbnailer().cuda().eval()
        self.size = size

    @torch.inference_mode()
    def embed(self, blobs):
        frames = self.decoder.decode(blobs)
        vectors = []
        for frame in frames:
            vectors.append(self.model(frame.unsqueeze(0)))
        return torch.cat(vectors)

    def run(self, batches):
        return [self.embed(b) for b in batches]


def fake_blobs(count, size):
    out = []
    for i in range(count):
        blob = torch.full((3 * size * size,), i % 255, dtype=torch.uint8)
        out.append(blob.pin_memory())
    return out


if __name__ == "__main__":
    pipe = Pipeline()
    work = [fake_blobs(8, pipe.size) for _ in range(12)]
    result = pipe.run(work)
    torch.cuda.synchronize()
    print(torch.cat(result).shape)
