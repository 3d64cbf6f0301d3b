import torch
from torch import nn

from sgd import ShardedSGD
from transport import make_transport


def net(dim=4096, depth=4):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(dim, 10))


def main():
    torch.cuda.set_device(0)
    model = net().cuda()
    opt = ShardedSGD(model, make_transport("side"), lr=1e-3)
    lossf = nn.CrossEntropyLoss()
    for step in range(50):
        x = torch.randn(256, 4096, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        opt.zero_grad()
        loss = lossf(model(x), y)
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
