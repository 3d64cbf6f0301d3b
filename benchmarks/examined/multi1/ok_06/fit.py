import torch
from torch import nn

from images import AugmentedLoader, fake_batch


def net():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def main(steps=200):
    model = net().to("cuda:0")
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = AugmentedLoader(fake_batch, steps)
    step = 0
    while (item := loader.get()) is not None:
        img, label = item
        loss = nn.functional.cross_entropy(model(img), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())
        step += 1


if __name__ == "__main__":
    main()
