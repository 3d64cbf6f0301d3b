import torch
from torch import nn
from torch.nn.parallel import gather, parallel_apply, replicate, scatter


class ManualDataParallel:
    """Splits a batch over devices with the functional data-parallel primitives."""

    def __init__(self, net: nn.Module, devices):
        self.devices = list(devices)
        self.net = net.to(self.devices[0])

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        chunks = scatter(batch, self.devices)
        if len(chunks) == 1:
            return self.net(chunks[0])
        replicas = replicate(self.net, self.devices[:len(chunks)])
        outs = parallel_apply(replicas, [(c,) for c in chunks], devices=self.devices[:len(chunks)])
        return gather(outs, self.devices[0])


def main():
    devices = range(torch.cuda.device_count())
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
    dp = ManualDataParallel(net, devices)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(20):
        x = torch.randn(256, 512)
        y = dp(x)
        loss = (y - y.roll(1, 0)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
