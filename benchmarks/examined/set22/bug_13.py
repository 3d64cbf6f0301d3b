"""Pose inference over decoded video: a decode thread converts NVDEC surfaces, the main thread predicts."""
import queue
import threading

import PyNvVideoCodec as nvc
import torch
from cuda.bindings import runtime as cudart


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"cuda error {result[0]}")


class DecodeThread(threading.Thread):
    def __init__(self, path, device, depth=4):
        super().__init__(daemon=True)
        self.device = torch.device(device)
        self.frames = queue.Queue(maxsize=depth)
        self.stream = torch.cuda.Stream(self.device)
        self.demuxer = nvc.CreateDemuxer(filename=path)
        self.decoder = nvc.CreateDecoder(
            gpuid=self.device.index or 0,
            codec=self.demuxer.GetNvCodecId(),
            cudastream=self.stream.cuda_stream,
            usedevicememory=True,
        )
        self.height = self.demuxer.Height()
        self.width = self.demuxer.Width()

    def _to_rgb(self, surface):
        rows = self.height * 3 // 2
        nv12 = torch.empty(rows, self.width, dtype=torch.uint8, device=self.device)
        check(cudart.cudaMemcpyAsync(
            nv12.data_ptr(), surface.GetPtrToPlane(0), rows * self.width,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, self.stream.cuda_stream,
        ))
        y = nv12[: self.height].float()
        uv = nv12[self.height:].view(self.height // 2, self.width // 2, 2).float() - 128
        uv = uv.repeat_interleave(2, 0).repeat_interleave(2, 1)
        u, v = uv[..., 0], uv[..., 1]
        rgb = torch.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u])
        return rgb.clamp_(0, 255).div_(255)

    def run(self):
        with torch.cuda.stream(self.stream), torch.inference_mode():
            for packet in self.demuxer:
                for surface in self.decoder.Decode(packet):
                    self.frames.put(self._to_rgb(surface))
        self.frames.put(None)


class KeypointPredictor:
    def __init__(self, model, device, batch_size=16):
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.batch_size = batch_size

    @torch.inference_mode()
    def _predict(self, batch):
        torch.cuda.current_stream(self.device).synchronize()
        heatmaps = self.model(torch.stack(batch))
        flat = heatmaps.flatten(2)
        conf, idx = flat.max(-1)
        w = heatmaps.shape[-1]
        return torch.stack([idx % w, idx // w, conf], dim=-1).cpu()

    def predict_video(self, path):
        decode = DecodeThread(path, self.device)
        decode.start()
        batch, out = [], []
        while (frame := decode.frames.get()) is not None:
            batch.append(frame)
            if len(batch) == self.batch_size:
                out.append(self._predict(batch))
                batch = []
        if batch:
            out.append(self._predict(batch))
        decode.join()
        return torch.cat(out)
