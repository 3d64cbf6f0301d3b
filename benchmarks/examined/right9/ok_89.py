from collections.abc import Mapping

import torch


class LazyState(Mapping):
    """A state dict that is uploaded in the background and resolved on access."""

    def __init__(self, host_state, device):
        self._stream = torch.cuda.Stream(device)
        self._slots = {}
        with torch.cuda.stream(self._stream):
            for name, t in host_state.items():
                moved = t.pin_memory().to(device, non_blocking=True)
                self._slots[name] = (moved, self._stream.record_event())

    def __getitem__(self, name):
        tensor, event = self._slots[name]
        here = torch.cuda.current_stream(tensor.device)
        here.wait_event(event)
        tensor.record_stream(here)
        return tensor

    def __iter__(self):
        return iter(self._slots)

    def __len__(self):
        return len(self._slots)


def host_checkpoint(depth, dim):
    gen = torch.Generator().manual_seed(0)
    state = {}
    for i in range(depth):
        state[f"{i}.weight"] = torch.randn(dim, dim, generator=gen) * dim**-0.5
        state[f"{i}.bias"] = torch.zeros(dim)
    return state


class FunctionalMLP:
    def __init__(self, state, depth):
        self.state = state
        self.depth = depth

    def __call__(self, x):
        for i in range(self.depth):
            x = torch.nn.functional.linear(x, self.state[f"{i}.weight"], self.state[f"{i}.bias"])
            x = torch.nn.functional.silu(x)
        return x


@torch.inference_mode()
def main():
    depth, dim = 16, 2048
    x = torch.randn(32, dim, device="cuda")
    for _ in range(3):
        net = FunctionalMLP(LazyState(host_checkpoint(depth, dim), x.device), depth)
        x = torch.nn.functional.normalize(net(x), dim=-1)
        print(x.abs().max().item())


if __name__ == "__main__":
    main()
