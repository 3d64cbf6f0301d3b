import cupy as cp
import torch


class CupyFilterStage:
    """Band-pass filter implemented with cuFFT through CuPy, fed from torch."""

    def __init__(self, n: int, low: int, high: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            freq = cp.fft.rfftfreq(n) * n
            self.window = ((freq >= low) & (freq <= high)).astype(cp.float32)

    def submit(self, batch: torch.Tensor) -> cp.ndarray:
        with self.stream:
            x = cp.from_dlpack(batch)
            spec = cp.fft.rfft(x, axis=-1) * self.window
            return cp.fft.irfft(spec, n=x.shape[-1], axis=-1).astype(cp.float32)

    def collect(self, filtered: cp.ndarray) -> torch.Tensor:
        with self.stream:
            done = self.stream.record()
        torch_stream = torch.cuda.current_stream()
        cp.cuda.ExternalStream(torch_stream.cuda_stream).wait_event(done)
        return torch.as_tensor(filtered, device="cuda").clone()


def main():
    n = 1 << 14
    stage = CupyFilterStage(n, 32, 512)
    energy = torch.zeros(64, device="cuda")
    for _ in range(20):
        batch = torch.randn(64, n, device="cuda")
        filtered = stage.submit(batch)
        out = stage.collect(filtered)
        energy += out.square().mean(-1)
        torch.cuda.current_stream().synchronize()
        del filtered, batch
    print(energy.tolist()[:4])


if __name__ == "__main__":
    main()
