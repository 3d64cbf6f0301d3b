"""PyTorch and raw runtime calls on one natively created stream."""
import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class NativeStream:
    """A cudaStream_t usable from PyTorch; entering forks, leaving joins."""

    def __init__(self, device: torch.device):
        self.device = device
        with torch.cuda.device(device):
            self.handle = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.torch = torch.cuda.ExternalStream(int(self.handle), device=device)

    def __enter__(self) -> "NativeStream":
        self._parent = torch.cuda.current_stream(self.device)
        self.torch.wait_stream(self._parent)
        self._ctx = torch.cuda.stream(self.torch)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc) -> None:
        self._ctx.__exit__(*exc)
        self._parent.wait_stream(self.torch)

    def fill(self, t: torch.Tensor, byte: int) -> None:
        check(cudart.cudaMemsetAsync(t.data_ptr(), byte, t.numel() * t.element_size(), self.handle))

    def copy(self, dst: torch.Tensor, src: torch.Tensor) -> None:
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        check(cudart.cudaMemcpyAsync(
            dst.data_ptr(), src.data_ptr(), src.numel() * src.element_size(), kind, self.handle))

    def close(self) -> None:
        check(cudart.cudaStreamSynchronize(self.handle))
        torch.cuda.empty_cache()
        check(cudart.cudaStreamDestroy(self.handle))


class DeltaCoder:
    def __init__(self, shape: tuple, device: torch.device):
        self.previous = torch.zeros(shape, device=device)
        self.mask = torch.zeros(shape, dtype=torch.uint8, device=device)
        self.stream = NativeStream(device)

    def encode(self, frame: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        with self.stream as s:
            torch.sub(frame, self.previous, out=out)
            s.fill(self.mask, 0)
            self.mask[out.abs() > 0.5] = 1
            out.mul_(self.mask)
            s.copy(self.previous, frame)
        return out


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    coder = DeltaCoder((512, 512), device)
    energy = torch.zeros((), device=device)
    out = torch.empty(512, 512, device=device)
    for _ in range(40):
        frame = torch.randn(512, 512, device=device)
        energy += coder.encode(frame, out).square().sum()
    print(energy.item())
    coder.stream.close()


if __name__ == "__main__":
    main()
