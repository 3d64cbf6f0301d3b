from abc import ABC, abstractmethod
from typing import Dict

import torch


class Transfer(ABC):
    """An asynchronous copy; ``result`` is usable after ``wait``."""

    def __init__(self, stream: torch.cuda.Stream):
        self.stream = stream
        self.event = torch.cuda.Event()
        self._waited = False

    def start(self, src: torch.Tensor) -> "Transfer":
        self.src = src
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.result = self.copy(src)
            self.event.record()
        return self

    @abstractmethod
    def copy(self, src: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def join(self) -> None: ...

    def wait(self) -> torch.Tensor:
        if not self._waited:
            self.join()
            self.src = None
            self._waited = True
        return self.result


class ToHost(Transfer):
    def copy(self, src):
        return torch.empty(src.shape, dtype=src.dtype, pin_memory=True).copy_(src, non_blocking=True)

    def join(self):
        self.event.synchronize()


class ToDevice(Transfer):
    def copy(self, src):
        return src.to("cuda", non_blocking=True)

    def join(self):
        current = torch.cuda.current_stream()
        current.wait_event(self.event)
        self.result.record_stream(current)


class SequenceSwapper:
    def __init__(self):
        self.out_stream, self.in_stream = torch.cuda.Stream(), torch.cuda.Stream()
        self.swapped: Dict[int, ToHost] = {}

    def swap_out(self, seq: int, cache: torch.Tensor) -> None:
        self.swapped[seq] = ToHost(self.out_stream).start(cache)

    def swap_in(self, seq: int) -> ToDevice:
        return ToDevice(self.in_stream).start(self.swapped.pop(seq).wait())


@torch.inference_mode()
def main():
    swapper = SequenceSwapper()
    norms = {}
    for seq in range(16):
        cache = torch.randn(2, 32, 256, 64, device="cuda")
        norms[seq] = cache.norm()
        swapper.swap_out(seq, cache)
    transfers = {seq: swapper.swap_in(seq) for seq in range(16)}
    for seq, tr in transfers.items():
        assert torch.allclose(tr.wait().norm(), norms[seq])


if __name__ == "__main__":
    main()
