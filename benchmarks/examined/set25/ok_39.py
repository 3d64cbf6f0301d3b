"""Batched decode into caller-allocated tensors with a private engine stream."""
import torch


class HardwareEngine:
    """Consumes coefficient blocks and fills destination images on its stream."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.basis = torch.linalg.qr(torch.randn(64, 64, device=device)).Q
        self.finished = torch.cuda.Event()

    def decode_batched(self, coefficients, destinations, caller):
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            for src, dst in zip(coefficients, destinations):
                blocks = (src.view(-1, 64) @ self.basis).clamp(0, 255)
                dst.view(-1, 64).copy_(blocks)
            self.finished.record(self.stream)
        for t in (*coefficients, *destinations):
            t.record_stream(self.stream)
        return self.finished


class ImageDecoder:
    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        self.engine = HardwareEngine(self.device)

    def decode(self, encoded):
        caller = torch.cuda.current_stream(self.device)
        coefficients = [e.to(self.device, non_blocking=True) for e in encoded]
        outputs = [torch.empty_like(c) for c in coefficients]
        finished = self.engine.decode_batched(coefficients, outputs, caller)
        caller.wait_event(finished)
        return outputs


def statistics(images):
    return torch.stack([torch.stack((im.mean(), im.std())) for im in images])


def main():
    decoder = ImageDecoder()
    host = [torch.randn(3, 512, 512).mul_(64).add_(128).pin_memory() for _ in range(16)]
    work = torch.cuda.Stream()
    history = []
    with torch.cuda.stream(work):
        filters = torch.randn(8, 3, 5, 5, device="cuda")
        for _ in range(10):
            images = decoder.decode(host)
            batch = torch.stack(images)
            history.append(torch.nn.functional.conv2d(batch, filters).abs().mean())
            history.append(statistics(images)[:, 0].mean())
            del images, batch
        summary = torch.stack(history)
    work.synchronize()
    print(summary.tolist())


if __name__ == "__main__":
    main()
