import torch
from torch import nn


class Offloaded:
    __slots__ = ("host", "event", "device")

    def __init__(self, host, event, device):
        self.host = host
        self.event = event
        self.device = device


class ActivationOffload(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, stream, resident, min_bytes=1 << 20):
        self.stream = stream
        self.resident = {p.untyped_storage().data_ptr() for p in resident}
        self.min_bytes = min_bytes
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor):
        if not tensor.is_cuda or tensor.untyped_storage().data_ptr() in self.resident:
            return tensor
        if tensor.numel() * tensor.element_size() < self.min_bytes:
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
            event = self.stream.record_event()
        tensor.record_stream(self.stream)
        return Offloaded(host, event, tensor.device)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        torch.cuda.current_stream(packed.device).wait_event(packed.event)
        return packed.host.to(packed.device, non_blocking=True)

    def __exit__(self, *exc):
        try:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
        finally:
            super().__exit__(*exc)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Trainer:
    def __init__(self, width=512, depth=6, device="cuda"):
        self._device = torch.device(device, torch.cuda.current_device())
        self._model = nn.Sequential(*[Block(width) for _ in range(depth)]).to(self._device)
        self._opt = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._stream = torch.cuda.Stream(self._device)

    def step(self, x, y):
        self._opt.zero_grad(set_to_none=True)
        with ActivationOffload(self._stream, self._model.parameters()):
            loss = nn.functional.mse_loss(self._model(x), y)
        loss.backward()
        self._opt.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, x, y):
        return nn.functional.mse_loss(self._model(x), y).item()


def main():
    trainer = Trainer()
    losses = []
    for _ in range(10):
        x = torch.randn(2048, 512, device="cuda")
        losses.append(trainer.step(x, x.roll(1, dims=1)))
    print(torch.stack(losses).tolist())
    x = torch.randn(2048, 512, device="cuda")
    print(trainer.evaluate(x, x.roll(1, dims=1)))


if __name__ == "__main__":
    main()
