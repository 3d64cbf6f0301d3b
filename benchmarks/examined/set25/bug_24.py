"""Host offloading of activations for a scanned block stack."""
import torch


class HostOffloader:
    """Moves residuals to pinned host memory and back on a dedicated stream."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self._pending = {}

    def copy_start(self, key, tensor):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.stream)
        tensor.record_stream(self.stream)
        self._pending[key] = (host, done)

    def copy_done(self, key):
        host, done = self._pending.pop(key)
        main = torch.cuda.current_stream(self.device)
        main.wait_event(done)
        return host.to(self.device, non_blocking=True)


class ScannedBlocks(torch.nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(width, width) * 0.02) for _ in range(depth))

    def forward_offloaded(self, x, offloader):
        for i, w in enumerate(self.weights):
            x = x * torch.sigmoid(x @ w)
            offloader.copy_start(i, x)
        return x

    def weight_grads(self, grad, offloader):
        grads = []
        for i in reversed(range(len(self.weights))):
            residual = offloader.copy_done(i)
            grads.append(residual.t() @ grad)
            grad = grad @ self.weights[i].t()
        return grads[::-1]


def main():
    torch.manual_seed(0)
    net = ScannedBlocks(8, 2048).cuda()
    offloader = HostOffloader()
    with torch.no_grad():
        for step in range(20):
            x = torch.randn(4096, 2048, device="cuda")
            y = net.forward_offloaded(x, offloader)
            grads = net.weight_grads(torch.ones_like(y), offloader)
            for p, g in zip(net.weights, grads):
                p.add_(g, alpha=-1e-6)
    print(sum(p.norm().item() for p in net.weights))


if __name__ == "__main__":
    main()
