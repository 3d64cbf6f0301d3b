import torch
from torch import nn

from hub import MetricHub
from sinks import CsvSink, Smoother


def main(steps=1000, path="metrics.csv"):
    hub = MetricHub()
    smooth = hub.subscribe(Smoother())
    sink = hub.subscribe(CsvSink(path))
    net = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1)).to("cuda")
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    running = torch.zeros((), device="cuda")
    for step in range(steps):
        x = torch.randn(256, 20, device="cuda")
        y = x[:, :1] * x[:, 1:2]
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running.mul_(0.99).add_(loss.detach(), alpha=0.01)
        hub.log(step, "loss", loss)
        hub.log(step, "running", running)
        if step % 50 == 0:
            hub.poll()
            print(step, smooth.get("loss"))
    hub.flush()
    sink.close()
    print("final", smooth.get("loss"), smooth.get("running"))


if __name__ == "__main__":
    main()
