"""Decoder and color conversion on two streams (NV12 to RGB)."""
import torch


class SurfacePool:
    """Stand-in for the decoder: fills NV12 surfaces on its own stream."""

    def __init__(self, h, w, count=4):
        self.h, self.w = h, w
        self.stream = torch.cuda.Stream()
        self.surfaces = [torch.zeros(h * 3 // 2, w, dtype=torch.uint8, device="cuda") for _ in range(count)]
        self.mapped = [torch.cuda.Event() for _ in range(count)]
        torch.cuda.synchronize()
        self.packets = 0

    def decode(self, packet):
        i = self.packets % len(self.surfaces)
        self.packets += 1
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.mapped[i])
            staged = packet.to("cuda", non_blocking=True)
            self.surfaces[i].copy_(staged.cumsum(0) % 256)
        return i

    def unmap(self, i, stream):
        self.mapped[i].record(stream)


class ColorConverter:
    def __init__(self, pool):
        self.pool = pool

    def __call__(self, i):
        current = torch.cuda.current_stream()
        current.wait_stream(self.pool.stream)
        h = self.pool.h
        surface = self.pool.surfaces[i]
        y = surface[:h].float() - 16
        uv = surface[h:].view(h // 2, -1, 2).float() - 128
        u, v = (c.repeat_interleave(2, 0).repeat_interleave(2, 1) for c in uv.unbind(-1))
        self.pool.unmap(i, current)
        rgb = torch.stack([y + 1.59 * v, y - 0.39 * u - 0.81 * v, y + 2.02 * u])
        return rgb.clamp_(0, 255).to(torch.uint8)


def packets(n, h, w):
    for _ in range(n):
        yield torch.randint(0, 4, (h * 3 // 2, w), dtype=torch.uint8).pin_memory()


def main(n=200, h=720, w=1280):
    pool = SurfacePool(h, w)
    convert = ColorConverter(pool)
    thumbs = []
    for packet in packets(n, h, w):
        rgb = convert(pool.decode(packet))
        thumbs.append(rgb[:, ::90, ::160].float())
    print(torch.stack(thumbs).mean().item())


if __name__ == "__main__":
    main()
