"""Luma statistics per shot with VALI; conversions run ahead of downloads."""
import sys

import cupy as cp
import numpy as np
import python_vali as vali


class Slot:
    def __init__(self, w, h, gpu_id):
        self.nv12 = vali.Surface.Make(vali.PixelFormat.NV12, w, h, gpu_id)
        self.rgb = vali.Surface.Make(vali.PixelFormat.RGB, w, h, gpu_id)
        self.event = None
        self.index = -1


class ShotStats:
    def __init__(self, path, depth=3, gpu_id=0):
        self.decoder = vali.PyDecoder(path, {}, gpu_id=gpu_id)
        self.w, self.h = self.decoder.Width, self.decoder.Height
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.converter = vali.PySurfaceConverter(gpu_id=gpu_id, stream=self.stream.ptr)
        self.downloader = vali.PySurfaceDownloader(gpu_id=gpu_id)
        self.color = vali.ColorspaceConversionContext(vali.ColorSpace.BT_709, vali.ColorRange.MPEG)
        self.free = [Slot(self.w, self.h, gpu_id) for _ in range(depth)]
        self.busy = []
        self.host = np.empty(self.w * self.h * 3, dtype=np.uint8)
        self.count = 0

    def fill(self):
        while self.free:
            slot = self.free[-1]
            ok, _ = self.decoder.DecodeSingleSurface(slot.nv12)
            if not ok:
                return False
            self.free.pop()
            ok, info, slot.event = self.converter.RunAsync(slot.nv12, slot.rgb, self.color)
            if not ok:
                raise RuntimeError(str(info))
            slot.index = self.count
            self.count += 1
            self.busy.append(slot)
        return True

    def drain_one(self):
        slot = self.busy.pop(0)
        slot.event.Wait()
        ok, info = self.downloader.Run(slot.rgb, self.host)
        if not ok:
            raise RuntimeError(str(info))
        img = self.host.reshape(self.h, self.w, 3).astype(np.float32)
        luma = img @ np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)
        self.free.append(slot)
        return slot.index, float(luma.mean()), float(luma.std())

    def __iter__(self):
        more = True
        while more or self.busy:
            if more:
                more = self.fill()
            if self.busy:
                yield self.drain_one()


def cuts(rows, jump=12.0):
    last = None
    for index, mean, _ in rows:
        if last is not None and abs(mean - last) > jump:
            yield index
        last = mean


def main(path):
    rows = list(ShotStats(path))
    print("frames", len(rows), "cuts at", list(cuts(rows)))


if __name__ == "__main__":
    main(sys.argv[1])
