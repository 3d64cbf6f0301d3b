import torch


class Layer:
    def __init__(self, name):
        self.name = name
        self.parent = None
        self.output = None

    def setup(self, mini_batch):
        raise NotImplementedError

    def forward(self):
        raise NotImplementedError


class InputLayer(Layer):
    """Reads samples on the CPU into a page-locked matrix."""

    def __init__(self, reader, features):
        super().__init__("input")
        self.reader = reader
        self.features = features

    def setup(self, mini_batch):
        self.output = torch.zeros(mini_batch, self.features, pin_memory=True)

    def forward(self):
        for row in range(self.output.shape[0]):
            self.output[row].copy_(torch.from_numpy(self.reader.fetch()))


class TransferLayer(Layer):
    def __init__(self):
        super().__init__("h2d")
        self.copied = torch.cuda.Event()

    def setup(self, mini_batch):
        self.output = torch.empty_like(self.parent.output, device="cuda")

    def forward(self):
        self.copied.synchronize()
        self.output.copy_(self.parent.output, non_blocking=True)
        self.copied.record()


class FullyConnected(Layer):
    def __init__(self, name, width, seed):
        super().__init__(name)
        self.width = width
        self.generator = torch.Generator("cuda").manual_seed(seed)

    def setup(self, mini_batch):
        fan_in = self.parent.output.shape[1]
        self.weights = torch.randn(fan_in, self.width, device="cuda", generator=self.generator)
        self.weights.mul_(fan_in ** -0.5)
        self.output = torch.empty(mini_batch, self.width, device="cuda")

    def forward(self):
        torch.mm(self.parent.output, self.weights, out=self.output)
        self.output.relu_()


class Model:
    def __init__(self, layers, mini_batch):
        self.layers = layers
        for parent, child in zip(layers, layers[1:]):
            child.parent = parent
        for layer in layers:
            layer.setup(mini_batch)

    def evaluate(self, num_steps):
        score = torch.zeros((), device="cuda")
        for _ in range(num_steps):
            for layer in self.layers:
                layer.forward()
            score += self.layers[-1].output.mean()
        return score.item() / num_steps


def build(reader, features, widths, mini_batch):
    layers = [InputLayer(reader, features), TransferLayer()]
    layers += [FullyConnected(f"fc{i}", w, seed=i) for i, w in enumerate(widths)]
    return Model(layers, mini_batch)
