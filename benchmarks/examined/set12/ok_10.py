import av
import numpy as np
import torch


class VideoDecoder:
    def __init__(self, path, batch_size, device="cuda"):
        self.container = av.open(path)
        self.video = self.container.streams.video[0]
        self.height = self.video.height
        self.width = self.video.width
        self.batch_size = batch_size
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        rows = self.height * 3 // 2
        self.staging = torch.empty(
            (batch_size, rows, self.width), dtype=torch.uint8, pin_memory=True
        )

    def _to_rgb(self, planes):
        luma = planes[: self.height].float()
        chroma = planes[self.height :].view(self.height // 2, self.width // 2, 2).float() - 128.0
        chroma = chroma.repeat_interleave(2, 0).repeat_interleave(2, 1)
        u, v = chroma[..., 0], chroma[..., 1]
        rgb = torch.stack((luma + 1.5748 * v, luma - 0.1873 * u - 0.4681 * v, luma + 1.8556 * u))
        return rgb.clamp_(0, 255).to(torch.uint8)

    def _flush(self, frames):
        self.stream.synchronize()
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        for rgb, _ in frames:
            rgb.record_stream(current)
        return torch.stack([rgb for rgb, _ in frames]), [pts for _, pts in frames]

    def frames(self):
        pending = []
        for frame in self.container.decode(self.video):
            row = self.staging[len(pending)]
            np.copyto(row.numpy(), frame.to_ndarray(format="nv12"))
            with torch.cuda.stream(self.stream):
                planes = row.to(self.device, non_blocking=True)
                rgb = self._to_rgb(planes)
            pending.append((rgb, frame.pts))
            if len(pending) == self.batch_size:
                yield self._flush(pending)
                pending = []
        if pending:
            yield self._flush(pending)


def count_detections(path, detector, batch_size=8, threshold=0.5):
    total = 0
    for batch, _ in VideoDecoder(path, batch_size).frames():
        scores = detector(batch.float().div_(255.0))
        total += int((scores > threshold).sum())
    return total
