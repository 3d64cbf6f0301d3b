"""Linear probing on a backbone that lives in pinned host memory."""
import torch
import torch.nn as nn


class HostResidentLayer:
    def __init__(self, module):
        self.module = module
        self.cpu_state = {n: p.detach().pin_memory() for n, p in module.named_parameters()}
        self.gpu_state = None
        self.event = torch.cuda.Event()

    def load(self, stream):
        with torch.cuda.stream(stream):
            self.gpu_state = {n: t.to("cuda", non_blocking=True) for n, t in self.cpu_state.items()}
            self.event.record()

    def unload(self):
        self.gpu_state = None

    def __call__(self, x):
        self.event.wait()
        return torch.func.functional_call(self.module, self.gpu_state, (x,))


class BlockSwapper:
    def __init__(self, modules):
        self.layers = [HostResidentLayer(m) for m in modules]
        self.h2d = torch.cuda.Stream()

    @torch.no_grad()
    def features(self, x):
        self.layers[0].load(self.h2d)
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                self.layers[i + 1].load(self.h2d)
            x = layer(x)
            layer.unload()
        return x


def probe_accuracy(steps=100):
    swapper = BlockSwapper([nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(32)])
    head = nn.Linear(2048, 10).cuda()
    opt = torch.optim.AdamW(head.parameters(), lr=1e-3)
    correct = torch.zeros((), device="cuda")
    for _ in range(steps):
        x = torch.randn(256, 2048, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        logits = head(swapper.features(x))
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += (logits.argmax(-1) == y).float().mean()
    return (correct / steps).item()


print(probe_accuracy())
