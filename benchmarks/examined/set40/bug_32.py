"""Thumbnail strip from a video file with VALI."""
import sys
from pathlib import Path

import cupy as cp
import numpy as np
import python_vali as vali


class StripMaker:
    def __init__(self, path, gpu_id=0, every=25):
        self.gpu_id = gpu_id
        self.every = every
        self.decoder = vali.PyDecoder(str(path), {}, gpu_id=gpu_id)
        self.w, self.h = self.decoder.Width, self.decoder.Height
        self.convert_stream = cp.cuda.Stream(non_blocking=True)
        self.download_stream = cp.cuda.Stream(non_blocking=True)
        self.converter = vali.PySurfaceConverter(gpu_id=gpu_id, stream=self.convert_stream.ptr)
        self.downloader = vali.PySurfaceDownloader(gpu_id=gpu_id, stream=self.download_stream.ptr)
        self.nv12 = vali.Surface.Make(vali.PixelFormat.NV12, self.w, self.h, gpu_id)
        self.rgb = vali.Surface.Make(vali.PixelFormat.RGB, self.w, self.h, gpu_id)
        self.color = vali.ColorspaceConversionContext(vali.ColorSpace.BT_709, vali.ColorRange.MPEG)
        self.frame = np.empty(self.h * self.w * 3, dtype=np.uint8)

    def decode(self):
        ok, info = self.decoder.DecodeSingleSurface(self.nv12)
        if not ok and info != vali.TaskExecInfo.END_OF_STREAM:
            raise RuntimeError(f"decode failed: {info}")
        return ok

    def to_rgb(self):
        ok, info, _ = self.converter.RunAsync(self.nv12, self.rgb, self.color)
        if not ok:
            raise RuntimeError(f"conversion failed: {info}")

    def grab(self):
        ok, info = self.downloader.Run(self.rgb, self.frame)
        if not ok:
            raise RuntimeError(f"download failed: {info}")
        return self.frame.reshape(self.h, self.w, 3)

    def __iter__(self):
        index = 0
        while self.decode():
            if index % self.every == 0:
                self.to_rgb()
                yield index, self.grab()
            index += 1


def shrink(img, factor):
    h, w = img.shape[0] // factor * factor, img.shape[1] // factor * factor
    blocks = img[:h, :w].reshape(h // factor, factor, w // factor, factor, 3)
    return blocks.mean(axis=(1, 3)).astype(np.uint8)


def main(src, dst, factor=8):
    strip = [shrink(img, factor) for _, img in StripMaker(src)]
    if not strip:
        raise SystemExit("no frames")
    sheet = np.concatenate(strip, axis=1)
    np.save(Path(dst), sheet)
    print("strip", sheet.shape)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
