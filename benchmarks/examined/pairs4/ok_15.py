"""Video encoder front end: RGB surfaces from a pool, packed on an encode stream."""
import queue
import threading

import torch


class Surface:
    def __init__(self, h, w):
        self.rgb = torch.empty(3, h, w, device="cuda")
        self.rendered = torch.cuda.Event()
        self.packed = torch.cuda.Event()


def rgb_to_nv12(rgb):
    r, g, b = rgb
    y = 0.257 * r + 0.504 * g + 0.098 * b + 16 / 255
    u = torch.nn.functional.avg_pool2d((-0.148 * r - 0.291 * g + 0.439 * b + 0.5)[None], 2)[0]
    v = torch.nn.functional.avg_pool2d((0.439 * r - 0.368 * g - 0.071 * b + 0.5)[None], 2)[0]
    uv = torch.stack([u, v], -1).flatten(1)
    return (torch.cat([y, uv]) * 255).to(torch.uint8)


class EncodeThread(threading.Thread):
    def __init__(self, pool, h, w):
        super().__init__()
        self.pool, self.inbox = pool, queue.Queue()
        self.bitstream = bytearray()
        self.host = torch.empty(h * 3 // 2, w, dtype=torch.uint8, pin_memory=True)

    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while (surface := self.inbox.get()) is not None:
                stream.wait_event(surface.rendered)
                nv12 = rgb_to_nv12(surface.rgb)
                surface.packed.record()
                self.pool.put(surface)
                self.host.copy_(nv12, non_blocking=True)
                stream.synchronize()
                self.bitstream += self.host[::64, ::64].numpy().tobytes()


def main(frames=240, h=720, w=1280):
    pool = queue.Queue()
    for _ in range(3):
        pool.put(Surface(h, w))
    torch.cuda.synchronize()
    encoder = EncodeThread(pool, h, w)
    encoder.start()
    ramp = torch.linspace(0, 1, w, device="cuda").expand(h, w)
    for i in range(frames):
        surface = pool.get()
        torch.cuda.current_stream().wait_event(surface.packed)
        for c in range(3):
            surface.rgb[c] = (ramp + 0.01 * i * (c + 1)).remainder(1.0)
        surface.rendered.record()
        encoder.inbox.put(surface)
    encoder.inbox.put(None)
    encoder.join()
    print(len(encoder.bitstream))


if __name__ == "__main__":
    main()
