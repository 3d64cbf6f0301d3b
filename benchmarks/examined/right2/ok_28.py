import math

import torch
from numba import cuda


@cuda.jit
def window_power(signal, taper, out):
    i = cuda.grid(1)
    if i < signal.shape[0]:
        v = signal[i] * taper[i % taper.shape[0]]
        out[i] = v * v


class TorchNumbaBridge:
    """Launches Numba kernels on a stream that torch owns."""

    def __init__(self, device: torch.device, threads: int = 256):
        self.device = device
        self.threads = threads
        self.torch_stream = torch.cuda.Stream(device)
        self.numba_stream = cuda.external_stream(self.torch_stream.cuda_stream)

    def launch(self, kernel, n: int, *tensors: torch.Tensor) -> None:
        views = [cuda.as_cuda_array(t, sync=False) for t in tensors]
        blocks = math.ceil(n / self.threads)
        kernel[blocks, self.threads, self.numba_stream](*views)

    def __enter__(self):
        self.outer = torch.cuda.current_stream(self.device)
        self.torch_stream.wait_stream(self.outer)
        self._ctx = torch.cuda.stream(self.torch_stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self._ctx.__exit__(*exc)
        self.outer.wait_stream(self.torch_stream)
        return False


def spectrum(bridge: TorchNumbaBridge, signal: torch.Tensor, taper: torch.Tensor):
    with bridge:
        power = torch.empty_like(signal)
        bridge.launch(window_power, signal.numel(), signal, taper, power)
        smooth = torch.nn.functional.avg_pool1d(power.view(1, 1, -1), 8, 8).flatten()
        bridge.launch(window_power, smooth.numel(), smooth, taper, power)
        result = power[: smooth.numel()].log1p()
    result.record_stream(bridge.outer)
    return result


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    bridge = TorchNumbaBridge(device)
    taper = torch.hann_window(512, device=device)
    total = torch.zeros(1 << 17, device=device)
    for _ in range(30):
        signal = torch.randn(1 << 20, device=device)
        total += spectrum(bridge, signal, taper)
    print(total.sum().item())


if __name__ == "__main__":
    main()
