"""Streams quantised checkpoint tensors to the GPU through leased host pages."""
import contextlib
import sys

import torch
from safetensors import safe_open


class PinnedLeases:
    def __init__(self, count, nbytes):
        self._idle = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(count)]

    @contextlib.contextmanager
    def lease(self, nbytes):
        page = self._idle.pop()
        try:
            yield page[:nbytes]
        finally:
            self._idle.append(page)


class QuantLoader:
    def __init__(self, leases, device):
        self.leases = leases
        self.device = device
        self.upload_stream = torch.cuda.Stream(device)

    def _tensor(self, cpu):
        raw = cpu.contiguous().view(-1).view(torch.uint8)
        out = torch.empty(cpu.shape, dtype=cpu.dtype, device=self.device)
        with self.leases.lease(raw.numel()) as page:
            page.copy_(raw)
            out.view(-1).view(torch.uint8).copy_(page, non_blocking=True)
        return out

    def load_file(self, path):
        tensors = {}
        with safe_open(path, framework="pt", device="cpu") as f, torch.cuda.stream(self.upload_stream):
            for name in f.keys():
                tensors[name] = self._tensor(f.get_tensor(name))
        self.upload_stream.synchronize()
        return tensors


def main(paths):
    loader = QuantLoader(PinnedLeases(4, 512 << 20), torch.device("cuda", 0))
    state = {}
    for path in paths:
        state.update(loader.load_file(path))
    print({k: float(v.float().abs().max()) for k, v in state.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
