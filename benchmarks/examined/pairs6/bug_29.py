"""Mixup batches are built by an executor while the model is trained on a high priority stream."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F


class MixupBuilder:
    def __init__(self, images, labels, classes, batch=512, alpha=0.4):
        self.images, self.labels, self.classes = images, labels, classes
        self.batch = batch
        self.beta = torch.distributions.Beta(alpha, alpha)
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="mixup")

    def build(self):
        rows = torch.randint(0, len(self.images), (2, self.batch), device=self.images.device)
        lam = self.beta.sample((self.batch,)).to(self.images.device)
        one_hot = F.one_hot(self.labels, self.classes).float()
        x = torch.lerp(self.images[rows[1]], self.images[rows[0]], lam.view(-1, 1, 1, 1))
        y = torch.lerp(one_hot[rows[1]], one_hot[rows[0]], lam.view(-1, 1))
        return x, y

    def batches(self, steps):
        future = self.executor.submit(self.build)
        for _ in range(steps):
            x, y = future.result()
            future = self.executor.submit(self.build)
            yield x, y
        future.cancel()


class WideNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 160, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(160, 320, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(320, classes)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def main(steps=3000):
    images = torch.rand(50_000, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 100, (50_000,), device="cuda")
    model = WideNet(100).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.cuda.synchronize()
    builder = MixupBuilder(images, labels, 100)
    torch.cuda.set_stream(torch.cuda.Stream(priority=-1))
    for x, y in builder.batches(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    torch.save(model.state_dict(), "wide.pt")


if __name__ == "__main__":
    main()
