import asyncio
import contextlib

import cupy as cp
import torch
import torch.nn as nn

_ROI_ALIGN_SRC = r"""
extern "C" __global__
void roi_align_forward(const float* feat, const float* rois, float* out, int n,
                       int channels, int height, int width, int pooled, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int pw = i % pooled, ph = (i / pooled) % pooled, c = (i / pooled / pooled) % channels;
    const float* r = rois + 5 * (i / pooled / pooled / channels);
    int x = min(max((int)(scale * (r[1] + (pw + 0.5f) * (r[3] - r[1]) / pooled)), 0), width - 1);
    int y = min(max((int)(scale * (r[2] + (ph + 0.5f) * (r[4] - r[2]) / pooled)), 0), height - 1);
    out[i] = feat[(((int)r[0] * channels + c) * height + y) * width + x];
}
"""
_roi_align_forward = cp.RawKernel(_ROI_ALIGN_SRC, "roi_align_forward")


class RoIAlign(nn.Module):
    def __init__(self, pooled, scale):
        super().__init__()
        self.pooled = pooled
        self.scale = scale

    def forward(self, feat, rois):
        feat = feat.contiguous()
        _, channels, height, width = feat.shape
        out = feat.new_empty((rois.shape[0], channels, self.pooled, self.pooled))
        n = out.numel()
        with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            _roi_align_forward(
                ((n + 255) // 256,), (256,),
                (feat.data_ptr(), rois.data_ptr(), out.data_ptr(), n, channels,
                 height, width, self.pooled, cp.float32(self.scale)),
            )
        return out


class TwoStageDetector(nn.Module):
    def __init__(self, backbone, rpn, bbox_head):
        super().__init__()
        self.backbone = backbone
        self.rpn = rpn
        self.roi = RoIAlign(7, 1.0 / 16)
        self.bbox_head = bbox_head
        self.streams = asyncio.Queue()
        for _ in range(4):
            self.streams.put_nowait(torch.cuda.Stream())

    @contextlib.asynccontextmanager
    async def concurrent_stream(self):
        stream = await self.streams.get()
        try:
            stream.wait_stream(torch.cuda.default_stream())
            yield stream
        finally:
            self.streams.put_nowait(stream)

    async def async_infer(self, image):
        async with self.concurrent_stream() as stream:
            with torch.cuda.stream(stream), torch.no_grad():
                feat = self.backbone(image)
                rois = self.rpn(feat).contiguous()
                pooled = self.roi(feat, rois)
                scores = self.bbox_head(pooled.flatten(1))
                done = torch.cuda.Event()
                done.record(stream)
            while not done.query():
                await asyncio.sleep(0.001)
            return scores.cpu()
