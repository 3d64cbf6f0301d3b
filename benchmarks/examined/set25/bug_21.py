"""Batched JPEG decoding on the GPU with one shared decoder per device."""
import threading

import torch


class CUDAJpegDecoder:
    """Owns the stream and the tables that all decode calls share."""

    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.quant_table = torch.arange(1, 65, device=device, dtype=torch.float32)

    def decode_images(self, blobs, mode: str = "RGB"):
        channels = 3 if mode == "RGB" else 1
        outputs = []
        with torch.cuda.stream(self.stream):
            for blob in blobs:
                coeffs = blob.pin_memory().to(self.device, non_blocking=True)
                blocks = coeffs.view(channels, -1, 64).float() * self.quant_table
                planes = torch.fft.irfft(torch.fft.rfft(blocks), n=64)
                outputs.append(planes.clamp_(0, 255).to(torch.uint8))
        return outputs


_lock = threading.Lock()
_decoders = {}


def _get_decoder(device: torch.device) -> CUDAJpegDecoder:
    with _lock:
        if device not in _decoders:
            _decoders[device] = CUDAJpegDecoder(device)
        return _decoders[device]


def decode_jpegs_cuda(blobs, mode: str = "RGB", device: str = "cuda:0"):
    dev = torch.device(device)
    decoder = _get_decoder(dev)
    with _lock:
        event = torch.cuda.Event()
        event.record(decoder.stream)
        images = decoder.decode_images(blobs, mode)
        current = torch.cuda.current_stream(dev)
        current.wait_event(event)
        for image in images:
            image.record_stream(current)
    return images


def embed_batch(model, blobs):
    images = decode_jpegs_cuda(blobs)
    batch = torch.stack(images).float().div_(255.0)
    return model(batch.flatten(1))


if __name__ == "__main__":
    net = torch.nn.Linear(3 * 64 * 256, 128).cuda()
    data = [torch.randint(0, 16, (3 * 64 * 256,), dtype=torch.int16) for _ in range(8)]
    with torch.no_grad():
        print(embed_batch(net, data).norm().item())
