import torch
from torch import nn


class LayerOffloadConductor:
    """Keeps the layers of a frozen trunk in host memory, two at a time on the device."""

    def __init__(self, layers: list[nn.Module], device: torch.device, num_slots: int = 2):
        self.layers = layers
        self.num_slots = num_slots
        self.train_stream = torch.cuda.current_stream(device)
        self.transfer_stream = torch.cuda.Stream(device)

        self.host_weights = [self._flatten(layer) for layer in layers]
        size = max(w.numel() for w in self.host_weights)
        self.slots = [
            torch.empty(size, dtype=torch.bfloat16, device=device) for _ in range(num_slots)
        ]
        self.slot_layer: list[int | None] = [None] * num_slots
        self.layer_train_event: dict[int, torch.cuda.Event] = {}
        self.layer_transfer_event: dict[int, torch.cuda.Event] = {}
        self.transfer_stream.wait_stream(self.train_stream)

    @staticmethod
    def _flatten(layer: nn.Module) -> torch.Tensor:
        flat = torch.cat([p.detach().reshape(-1).to("cpu", torch.bfloat16) for p in layer.parameters()])
        return flat.pin_memory()

    def _bind(self, index: int, flat: torch.Tensor):
        offset = 0
        for p in self.layers[index].parameters():
            p.data = flat[offset:offset + p.numel()].view(p.shape)
            offset += p.numel()

    def _schedule_layer_to_device(self, index: int):
        slot = index % self.num_slots
        evicted = self.slot_layer[slot]
        if evicted == index:
            return
        host = self.host_weights[index]
        target = self.slots[slot][:host.numel()]
        with torch.cuda.stream(self.transfer_stream):
            if evicted is not None:
                self.transfer_stream.wait_event(self.layer_train_event[evicted])
            target.copy_(host, non_blocking=True)
            self.layer_transfer_event[index] = self.transfer_stream.record_event()
        self.slot_layer[slot] = index
        self._bind(index, target)

    def before_layer(self, index: int, is_forward: bool):
        self._schedule_layer_to_device(index)
        self.train_stream.wait_event(self.layer_transfer_event[index])
        upcoming = index + 1 if is_forward else index - 1
        if 0 <= upcoming < len(self.layers):
            self._schedule_layer_to_device(upcoming)

    def after_layer(self, index: int):
        self.layer_train_event[index] = self.train_stream.record_event()


class Trunk(nn.Module):
    def __init__(self, dim: int, depth: int, device: torch.device):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(depth)
        ).requires_grad_(False)
        self.conductor = LayerOffloadConductor(list(self.layers), device)

    def forward(self, x: torch.Tensor):
        inputs = []
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                self.conductor.before_layer(i, is_forward=True)
                inputs.append(x)
                x = x + layer(x)
                self.conductor.after_layer(i)
        return x, inputs

    def backward(self, inputs: list[torch.Tensor], grad: torch.Tensor) -> torch.Tensor:
        for i in reversed(range(len(self.layers))):
            self.conductor.before_layer(i, is_forward=False)
            x = inputs[i].detach().requires_grad_()
            with torch.enable_grad():
                out = x + self.layers[i](x)
            self.conductor.after_layer(i)
            torch.autograd.backward(out, grad)
            grad = x.grad
        return grad


def train(batches, dim=1024, depth=24, lr=1e-4):
    device = torch.device("cuda")
    adapter = nn.Linear(dim, dim, dtype=torch.bfloat16, device=device)
    trunk = Trunk(dim, depth, device)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=lr, fused=True)
    for x, y in batches:
        hidden = adapter(x)
        out, inputs = trunk(hidden.detach())
        grad = (out - y) / out.numel()
        hidden.backward(trunk.backward(inputs, grad))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return adapter


if __name__ == "__main__":
    data = [
        tuple(torch.randn(8, 512, 1024, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        for _ in range(4)
    ]
    train(data)
