"""Sequences of video frames for training: decoded frames become normalized torch tensors.

The reader works on an ordinary (blocking) CuPy stream, the training loop on torch's default stream.
"""
import cupy as cp
import cupyx
import numpy as np
import torch
from torch import nn

_NV12_TO_RGB = cp.RawKernel(r"""
extern "C" __global__
void nv12_to_rgb(const unsigned char* y, const unsigned char* uv, float* out,
                 int w, int h, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= w * h) return;
    int px = i % w, py = i / w;
    float luma = 1.164f * (y[i] - 16.0f);
    int c = (py / 2) * w + (px & ~1);
    float u = uv[c] - 128.0f, v = uv[c + 1] - 128.0f;
    float rgb[3] = {luma + 1.596f * v, luma - 0.813f * v - 0.391f * u, luma + 2.018f * u};
    for (int k = 0; k < 3; ++k)
        out[k * w * h + i] = fminf(fmaxf(rgb[k], 0.0f), 255.0f) * scale;
}
""", "nv12_to_rgb")


class VideoReader:
    """Uploads NV12 frames and converts them into a caller-owned float tensor."""

    def __init__(self, frames, width, height, device_id=0):
        self.frames = frames
        self.width, self.height = width, height
        self.device_id = device_id
        self.frame_bytes = width * height * 3 // 2
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=False)
            self.device_frame = cp.empty(self.frame_bytes, dtype=cp.uint8)
            self.host = [cupyx.empty_pinned(self.frame_bytes, np.uint8) for _ in range(2)]
            self.uploaded = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
            for event in self.uploaded:
                event.record(self.stream)
        self.turn = 0

    def _stage(self, index):
        slot = self.turn
        self.turn ^= 1
        self.uploaded[slot].synchronize()
        np.copyto(self.host[slot], self.frames[index])
        self.device_frame.set(self.host[slot], stream=self.stream)
        self.uploaded[slot].record(self.stream)

    def receive_frames(self, out, start):
        """out: (T, 3, H, W) float32 CUDA tensor; filled with frames start, start + 1, ..."""
        view = cp.asarray(out)
        luma = self.device_frame[: self.width * self.height]
        chroma = self.device_frame[self.width * self.height :]
        total = self.width * self.height
        with cp.cuda.Device(self.device_id), self.stream:
            for t in range(out.shape[0]):
                self._stage(start + t)
                _NV12_TO_RGB(
                    ((total + 255) // 256,), (256,),
                    (luma, chroma, view[t], np.int32(self.width), np.int32(self.height),
                     np.float32(1.0 / 255.0)),
                )
        return out


class VideoLoader:
    def __init__(self, reader, length, sequence, stride):
        self.reader = reader
        self.starts = range(0, length - sequence, stride)
        self.sequence = sequence

    def __iter__(self):
        r = self.reader
        for start in self.starts:
            out = torch.empty((self.sequence, 3, r.height, r.width), device=f"cuda:{r.device_id}")
            yield r.receive_frames(out, start)


class TemporalSmoother(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(3, channels, 3, padding=1), nn.ReLU(inplace=True), nn.Conv3d(channels, 3, 3, padding=1)
        )

    def forward(self, clip):
        return clip + self.net(clip)


def train(frames, width, height, epochs=1):
    reader = VideoReader(frames, width, height)
    model = TemporalSmoother().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(epochs):
        for clip in VideoLoader(reader, len(frames), sequence=5, stride=2):
            clip = clip.transpose(0, 1).unsqueeze(0)
            noisy = clip + 0.05 * torch.randn_like(clip)
            loss = nn.functional.l1_loss(model(noisy), clip)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return model
