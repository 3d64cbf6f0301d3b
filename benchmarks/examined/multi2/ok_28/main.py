import torch
import torch.nn as nn
import torch.nn.functional as F

from augment import Chain, Mirror, Normalize
from feed import Lookahead, stream_of


def make_net():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )


def main(device="cuda:0", steps=120):
    torch.cuda.set_device(device)
    net = make_net().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    chain = Chain(Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), device), Mirror())
    total = torch.zeros((), device=device)
    for batch in Lookahead(stream_of(steps, 128, 96), device, chain):
        loss = F.cross_entropy(net(batch.image), batch.target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
    print(total.item() / steps)


if __name__ == "__main__":
    main()
