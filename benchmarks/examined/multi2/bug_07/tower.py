from torch import nn


def tower(width=4096, depth=10, classes=1000):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    layers.append(nn.Linear(width, classes))
    return nn.Sequential(*layers)


class Classifier(nn.Module):
    def __init__(self, features=768, width=4096, depth=10):
        super().__init__()
        self.stem = nn.Linear(features, width)
        self.tower = tower(width, depth)

    def forward(self, x):
        h = self.stem(x)
        h = self.tower(h)
        return h.softmax(-1)


def parameter_bytes(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


def freeze(model):
    for p in model.parameters():
        p.requires_grad_(False)
    return model


def layer_table(model):
    rows = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            rows.append((name, module.in_features, module.out_features))
    return rows
