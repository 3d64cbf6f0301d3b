"""Captured forward + loss + backward, eager optimizer step and state reset."""
import torch
import torch.nn.functional as F


class LIFLayer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width)
        self.register_buffer("v", torch.zeros(1))

    def alloc_state(self, batch, width):
        self.v = torch.zeros(batch, width, device=self.fc.weight.device)

    def reset(self):
        self.v.zero_()

    def forward(self, x):
        h = 0.5 * self.v + self.fc(x)
        spike = torch.sigmoid(4.0 * (h - 1.0))
        with torch.no_grad():
            self.v.copy_(h * (1.0 - (spike > 0.5).float()))
        return spike


class Net(torch.nn.Module):
    def __init__(self, width, classes, depth=2):
        super().__init__()
        self.layers = torch.nn.ModuleList([LIFLayer(width) for _ in range(depth)])
        self.head = torch.nn.Linear(width, classes)

    def reset(self):
        for layer in self.layers:
            layer.reset()

    def forward(self, x, steps):
        out = 0.0
        for _ in range(steps):
            h = x
            for layer in self.layers:
                h = layer(h)
            out = out + self.head(h)
        return out / steps


class GraphedStep:
    def __init__(self, net, optimizer, batch, width, steps=4):
        self.net = net
        self.optimizer = optimizer
        self.steps = steps
        self.x = torch.zeros(batch, width, device="cuda")
        self.y = torch.zeros(batch, dtype=torch.long, device="cuda")
        for layer in net.layers:
            layer.alloc_state(batch, width)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(11):
                self._forward_backward()
                self.net.reset()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = F.cross_entropy(self.net(self.x, self.steps), self.y)
            self.loss.backward()
        self.net.reset()

    def _forward_backward(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self.x, self.steps), self.y)
        loss.backward()

    def __call__(self, x, y):
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.graph.replay()
        loss = self.loss.detach().clone()
        self.optimizer.step()
        self.net.reset()
        return loss


def train(loader, width=128, classes=10, batch=64):
    net = Net(width, classes).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = GraphedStep(net, optimizer, batch, width)
    losses = []
    for x, y in loader:
        losses.append(step(x.cuda(), y.cuda()))
    return torch.stack(losses).cpu().tolist()
