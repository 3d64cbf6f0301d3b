import queue
import threading

import av
import torch
import torch.nn.functional as F


class DecodeThread(threading.Thread):
    def __init__(self, source, empty, full, staging):
        super().__init__(daemon=True)
        self.source, self.empty, self.full, self.staging = source, empty, full, staging

    def run(self):
        with av.open(self.source) as container:
            for frame in container.decode(video=0):
                slot = self.empty.get()
                plane = torch.from_numpy(frame.to_ndarray(format="bgr24"))
                self.staging[slot].copy_(plane)
                self.full.put((slot, float(frame.pts or 0)))
        self.full.put((None, 0.0))


class MotionTracker:
    def __init__(self, source, depth=3, size=(1080, 1920)):
        self.staging = torch.empty(depth, *size, 3, dtype=torch.uint8, pin_memory=True)
        self.empty, self.full = queue.Queue(), queue.Queue()
        for i in range(depth):
            self.empty.put(i)
        self.decoder = DecodeThread(source, self.empty, self.full, self.staging)
        self.upload = torch.cuda.Stream()
        self.previous = None

    def _to_gpu(self, slot):
        with torch.cuda.stream(self.upload):
            dev = self.staging[slot].to("cuda", non_blocking=True)
        self.empty.put(slot)
        torch.cuda.current_stream().wait_stream(self.upload)
        dev.record_stream(torch.cuda.current_stream())
        return dev

    def track(self):
        motion = []
        self.decoder.start()
        while True:
            slot, pts = self.full.get()
            if slot is None:
                break
            gray = self._to_gpu(slot).float().mean(-1)
            small = F.avg_pool2d(gray[None, None], 8)
            if self.previous is not None:
                motion.append((pts, (small - self.previous).abs().mean()))
            self.previous = small
        return [(p, m.item()) for p, m in motion]


if __name__ == "__main__":
    print(MotionTracker("street.mp4").track()[:20])
