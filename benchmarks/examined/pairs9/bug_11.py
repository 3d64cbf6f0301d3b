"""Video frame feeder: a decoder thread writes pinned buffers, the detector uploads them."""
import queue
import threading

import torch
from torch import nn


class DecoderThread(threading.Thread):
    def __init__(self, n_frames, shape, pool_size=2):
        super().__init__(daemon=True)
        self.n_frames = n_frames
        self.pool = queue.Queue()
        self.frames = queue.Queue(maxsize=pool_size)
        for _ in range(pool_size):
            self.pool.put(torch.empty(shape, dtype=torch.uint8, pin_memory=True))

    def decode(self, index, out):
        out.random_(0, 256)
        out[0, 0, 0] = index % 256

    def run(self):
        for index in range(self.n_frames):
            buffer = self.pool.get()
            self.decode(index, buffer)
            self.frames.put(buffer)
        self.frames.put(None)


class FrameFeeder:
    def __init__(self, decoder, device):
        self.decoder = decoder
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def upload(self, buffer):
        with torch.cuda.stream(self.stream):
            frame = buffer.to(self.device, non_blocking=True)
        self.decoder.pool.put(buffer)
        return frame

    def __iter__(self):
        while True:
            buffer = self.decoder.frames.get()
            if buffer is None:
                return
            frame = self.upload(buffer)
            main = torch.cuda.current_stream(self.device)
            main.wait_stream(self.stream)
            frame.record_stream(main)
            yield frame.permute(2, 0, 1).unsqueeze(0).float().div_(255)


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    decoder = DecoderThread(500, (2160, 3840, 3))
    decoder.start()
    net = nn.Sequential(nn.Conv2d(3, 32, 7, 4), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1)).to(device).eval()
    features = [net(frame).flatten() for frame in FrameFeeder(decoder, device)]
    print(torch.stack(features).mean(0).cpu())


if __name__ == "__main__":
    main()
