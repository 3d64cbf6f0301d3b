"""Activation store that reloads layer inputs just in time for a manual backward."""
import torch


class OffloadedActivation:
    def __init__(self):
        self.cpu = None
        self.gpu = None
        self.offloaded = torch.cuda.Event()
        self.reloaded = torch.cuda.Event()


class OffloadSynchronizer:
    """Copies activations out after the forward of a layer and back before its backward."""

    def __init__(self, num_layers):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.entries = [OffloadedActivation() for _ in range(num_layers)]

    def offload(self, layer, tensor):
        entry = self.entries[layer]
        if entry.cpu is None:
            entry.cpu = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        else:
            self.d2h_stream.wait_event(entry.reloaded)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            entry.cpu.copy_(tensor, non_blocking=True)
            entry.offloaded.record()
        tensor.record_stream(self.d2h_stream)

    def start_reload(self, layer):
        if layer < 0:
            return
        entry = self.entries[layer]
        self.h2d_stream.wait_event(entry.offloaded)
        with torch.cuda.stream(self.h2d_stream):
            entry.gpu = torch.empty_like(entry.cpu, device="cuda")
            entry.gpu.copy_(entry.cpu, non_blocking=True)
            entry.reloaded.record()

    def acquire(self, layer):
        entry = self.entries[layer]
        torch.cuda.current_stream().wait_event(entry.reloaded)
        return entry.gpu

    def release(self, layer):
        self.entries[layer].gpu = None


class MLPStack:
    def __init__(self, num_layers, width):
        scale = width ** -0.5
        self.weights = [torch.randn(width, width, device="cuda") * scale
                        for _ in range(num_layers)]
        self.grads = [torch.zeros_like(w) for w in self.weights]
        self.sync = OffloadSynchronizer(num_layers)

    def forward(self, x):
        for layer, weight in enumerate(self.weights):
            self.sync.offload(layer, x)
            x = torch.relu(x @ weight)
        return x

    def backward(self, grad):
        last = len(self.weights) - 1
        self.sync.start_reload(last)
        for layer in range(last, -1, -1):
            self.sync.start_reload(layer - 1)
            inp = self.sync.acquire(layer)
            weight = self.weights[layer]
            grad = grad * (inp @ weight > 0)
            self.grads[layer].addmm_(inp.t(), grad)
            grad = grad @ weight.t()
            del inp
            self.sync.release(layer)
        return grad

    def step(self, lr):
        for weight, grad in zip(self.weights, self.grads):
            weight.sub_(grad, alpha=lr)
            grad.zero_()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = MLPStack(num_layers=8, width=2048)
    for _ in range(10):
        x = torch.randn(8192, 2048, device="cuda")
        out = model.forward(x)
        model.backward(out / out.numel())
        model.step(1e-2)
    print(model.weights[0].abs().mean().item())


if __name__ == "__main__":
    main()
