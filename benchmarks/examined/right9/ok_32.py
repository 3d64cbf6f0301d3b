import torch


class Relay:
    """Three streams in a chain: decode, transform, export."""

    def __init__(self, shape, depth=3):
        self.decode = torch.cuda.Stream()
        self.transform = torch.cuda.Stream()
        self.export = torch.cuda.Stream()
        self.depth = depth
        self.raw = torch.zeros(depth, *shape, device="cuda")
        self.spec = torch.zeros(depth, shape[0], shape[1] // 2 + 1, device="cuda")
        self.host_in = torch.zeros(depth, *shape).pin_memory()
        self.host_out = torch.zeros(depth, shape[0], shape[1] // 2 + 1).pin_memory()
        self.exported = [None] * depth
        torch.cuda.synchronize()

    def push(self, i, block):
        k = i % self.depth
        ready = self.collect(k)
        self.host_in[k].copy_(block)
        with torch.cuda.stream(self.decode):
            self.raw[k].copy_(self.host_in[k], non_blocking=True)
            self.raw[k].sub_(self.raw[k].mean(-1, keepdim=True))
        self.transform.wait_stream(self.decode)
        with torch.cuda.stream(self.transform):
            torch.abs(torch.fft.rfft(self.raw[k]), out=self.spec[k])
        self.export.wait_stream(self.transform)
        with torch.cuda.stream(self.export):
            self.host_out[k].copy_(self.spec[k], non_blocking=True)
            self.exported[k] = self.export.record_event()
        return ready

    def collect(self, k):
        event, self.exported[k] = self.exported[k], None
        if event is None:
            return None
        event.synchronize()
        return self.host_out[k].clone()


def spectrogram(signal, width=1024, rows=64):
    blocks = signal.view(-1, rows, width)
    relay = Relay((rows, width))
    mean = torch.zeros(rows, width // 2 + 1)
    seen = 0
    for i, block in enumerate(blocks):
        out = relay.push(i, block)
        if out is not None:
            mean += out
            seen += 1
    for k in range(relay.depth):
        out = relay.collect(k)
        if out is not None:
            mean += out
            seen += 1
    return mean / seen


if __name__ == "__main__":
    t = torch.arange(64 * 1024 * 50, dtype=torch.float32)
    print(spectrogram(torch.sin(t * 0.3) + 0.1 * torch.randn_like(t)).argmax(-1))
