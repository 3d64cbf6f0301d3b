from functools import partial
from typing import Dict

import torch
from torch import nn


class StreamingLoader:
    """Copies a checkpoint to the device layer by layer while the first forward already runs."""

    def __init__(self, model: nn.Sequential, state: Dict[str, torch.Tensor]):
        self.model = model
        self.state = {k: v.pin_memory() for k, v in state.items()}
        self.stream = torch.cuda.Stream()
        self.arrived: Dict[str, torch.cuda.Event] = {}
        self.handles = {}

    @torch.no_grad()
    def begin(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        for name, layer in self.model.named_children():
            with torch.cuda.stream(self.stream):
                for key, p in layer.named_parameters():
                    p.copy_(self.state[f"{name}.{key}"], non_blocking=True)
                self.arrived[name] = self.stream.record_event()
            self.handles[name] = layer.register_forward_pre_hook(partial(self._gate, name))

    def _gate(self, name, module, args):
        event = self.arrived.pop(name, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
            self.handles.pop(name).remove()


def build(depth=12, dim=2048):
    return nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])


@torch.no_grad()
def main():
    reference = build()
    state = reference.state_dict()
    model = build().to("cuda")
    loader = StreamingLoader(model, state)
    loader.begin()
    x = torch.randn(8, 2048, device="cuda")
    first = model(x)
    second = model(x)
    assert torch.equal(first, second)
    print((first.cpu() - reference(x.cpu())).abs().max().item())


if __name__ == "__main__":
    main()
