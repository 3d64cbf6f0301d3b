import torch

from schedule import plan, traffic
from weights import LayerSlots

CONFIG = {"layers": 32, "width": 4096, "slots": 3, "ahead": 3}


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        width = cfg["width"]
        layers = [torch.randn(width, width) / width ** 0.5 for _ in range(cfg["layers"])]
        self.slots = LayerSlots(layers, cfg["slots"])

    @torch.no_grad()
    def forward(self, x):
        for op in plan(self.cfg["layers"], self.cfg["ahead"]):
            if op.kind == "fetch":
                self.slots.fetch(op.layer)
            else:
                x = torch.tanh(x @ self.slots.weight(op.layer))
        return x


def main():
    runner = Runner(CONFIG)
    x = torch.randn(64, CONFIG["width"], device="cuda")
    y = runner.forward(x)
    moved = traffic(CONFIG["layers"], CONFIG["ahead"], CONFIG["width"] ** 2 * 4)
    print(y.std().item(), moved / 2 ** 30)


if __name__ == "__main__":
    main()
