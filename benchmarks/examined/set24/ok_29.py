"""Zero-copy export of rendered images to torch."""
import cupy as cp
import torch


class RenderedImage:
    """Exports a CuPy array written on a private stream."""

    def __init__(self, array, ready):
        self.array = array
        self.ready = ready

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None, **kwargs):
        if stream is None or stream in (0, 1):
            consumer = cp.cuda.Stream.null
        else:
            consumer = cp.cuda.ExternalStream(stream)
        consumer.wait_event(self.ready)
        return self.array.__dlpack__(stream=-1)


class Renderer:
    def __init__(self, height, width, n_slots=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.images = [cp.zeros((height, width), dtype=cp.float32) for _ in range(n_slots)]
        cp.cuda.Device().synchronize()
        self.ready = [cp.cuda.Event(disable_timing=True) for _ in range(n_slots)]
        self.released = [None] * n_slots
        self.frame = 0

    def render(self, phase):
        slot = self.frame % len(self.images)
        self.frame += 1
        image = self.images[slot]
        if self.released[slot] is not None:
            self.stream.wait_event(self.released[slot])
        with self.stream:
            h, w = image.shape
            x = cp.linspace(0, 6.28, w, dtype=cp.float32)
            y = cp.linspace(0, 6.28, h, dtype=cp.float32)
            image[...] = cp.sin(x[None, :] + phase) * cp.cos(y[:, None])
            self.ready[slot].record(self.stream)
        return slot, RenderedImage(image, self.ready[slot])

    def release(self, slot, stream):
        event = cp.cuda.Event(disable_timing=True)
        event.record(stream)
        self.released[slot] = event


def main():
    renderer = Renderer(512, 512)
    train = torch.cuda.Stream()
    net = torch.nn.Conv2d(1, 8, 3, padding=1).cuda()
    torch.cuda.synchronize()
    losses = []
    with torch.cuda.stream(train), torch.no_grad():
        for step in range(50):
            slot, exported = renderer.render(0.1 * step)
            img = torch.from_dlpack(exported)
            losses.append(net(img[None, None]).square().mean())
            renderer.release(slot, cp.cuda.ExternalStream(train.cuda_stream))
        total = torch.stack(losses).sum()
    train.synchronize()
    print(total.item())


if __name__ == "__main__":
    main()
