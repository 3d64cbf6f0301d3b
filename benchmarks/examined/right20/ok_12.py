import torch
from torch import nn


class Stash:
    """Activations by [layer][microbatch], kept on the host between the passes."""

    def __init__(self, layers, micro):
        self.host = [[None] * micro for _ in range(layers)]
        self.left = [[None] * micro for _ in range(layers)]
        self.down = torch.cuda.Stream()
        self.up = torch.cuda.Stream()

    def put(self, layer, mb, x):
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            if self.host[layer][mb] is None:
                self.host[layer][mb] = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            self.host[layer][mb].copy_(x, non_blocking=True)
            x.record_stream(self.down)
            self.left[layer][mb] = self.down.record_event()

    def get(self, layer, mb):
        main = torch.cuda.current_stream()
        with torch.cuda.stream(self.up):
            self.up.wait_event(self.left[layer][mb])
            x = self.host[layer][mb].to("cuda", non_blocking=True)
        main.wait_stream(self.up)
        x.record_stream(main)
        self.left[layer][mb] = None
        return x


class Trainer:
    def __init__(self, dim, layers, micro):
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers)).cuda()
        self.stash = Stash(layers, micro)
        self.micro = micro
        self.opt = torch.optim.SGD(self.layers.parameters(), lr=0.05)

    def forward_pass(self, chunks):
        outs = []
        with torch.no_grad():
            for mb, x in enumerate(chunks):
                for i, layer in enumerate(self.layers):
                    self.stash.put(i, mb, x)
                    x = torch.tanh(layer(x))
                outs.append(x)
        return outs

    def backward_pass(self, grads):
        for mb in reversed(range(self.micro)):
            g = grads[mb]
            for i in reversed(range(len(self.layers))):
                x = self.stash.get(i, mb).requires_grad_()
                y = torch.tanh(self.layers[i](x))
                y.backward(g)
                g = x.grad

    def step(self, batch, target):
        outs = self.forward_pass(batch.chunk(self.micro))
        grads = [(y - t) / y.numel() for y, t in zip(outs, target.chunk(self.micro))]
        self.backward_pass(grads)
        torch.cuda.current_stream().synchronize()
        self.opt.step()
        self.opt.zero_grad()
        return sum(g.square().sum().item() for g in grads)


if __name__ == "__main__":
    tr = Trainer(512, 6, 4)
    for i in range(10):
        b = torch.randn(256, 512, device="cuda")
        print(i, tr.step(b, b.flip(1)))
