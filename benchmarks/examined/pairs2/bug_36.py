"""Layer-wise sign updates applied while backward is running."""
import torch
import torch.nn as nn


class LayerwiseUpdater:
    def __init__(self, layers, lr):
        self.lr = lr
        self.stream = torch.cuda.Stream()
        self.events = {id(layer): torch.cuda.Event() for layer in layers}
        for layer in layers:
            layer.register_full_backward_hook(self._after_backward)
            layer.register_forward_pre_hook(self._before_forward)
        self.queue = []

    def _after_backward(self, module, grad_input, grad_output):
        self.queue.append(module)

    def apply(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for module in self.queue:
                for p in module.parameters():
                    p.sub_(p.grad.sign(), alpha=self.lr)
                    p.grad.zero_()
                self.events[id(module)].record()
        self.queue.clear()

    def _before_forward(self, module, args):
        event = self.events[id(module)]
        if event.query():
            torch.cuda.current_stream().wait_event(event)


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def main(steps=500):
    model = Stack(2048, 10).cuda()
    updater = LayerwiseUpdater(list(model.layers), lr=1e-5)
    for _ in range(steps):
        x = torch.randn(32, 2048, device="cuda", requires_grad=True)
        model(x).square().mean().backward()
        updater.apply()
    updater.stream.synchronize()


main()
