"""A driver-made stream next to PyTorch's default stream."""
import torch
from cuda import cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class BlockingStream:
    def __init__(self):
        torch.cuda.init()
        torch.cuda.set_device(0)
        torch.cuda.current_stream().synchronize()
        self._raw = check(cudart.cudaStreamCreate())
        self.torch = torch.cuda.ExternalStream(int(self._raw))

    def __enter__(self):
        self._ctx = torch.cuda.stream(self.torch)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        return self._ctx.__exit__(*exc)

    def close(self):
        self.torch.synchronize()
        check(cudart.cudaStreamDestroy(self._raw))


class Smoother:
    def __init__(self, n: int):
        self.stream = BlockingStream()
        self.state = torch.zeros(n, device="cuda")

    def update(self, x: torch.Tensor) -> torch.Tensor:
        with self.stream:
            self.state.lerp_(x, 0.1)
        return self.state * 2

    def close(self):
        self.stream.close()


def main():
    smoother = Smoother(1 << 16)
    acc = torch.zeros((), device="cuda")
    for i in range(50):
        acc += smoother.update(torch.full((1 << 16,), float(i), device="cuda")).mean()
    print(acc.item())
    smoother.close()


if __name__ == "__main__":
    main()
