import torch
from torch import nn

from detector import Detector, Tagger

KINDS = {"detect": Detector, "tag": Tagger}


def backbone(width, classes):
    return nn.Sequential(
        nn.Linear(width, 2048),
        nn.SiLU(),
        nn.Linear(2048, 2048),
        nn.SiLU(),
        nn.Linear(2048, classes),
    )


def main(kind="detect", batch=256, width=768, classes=1000):
    engine = KINDS[kind](backbone(width, classes), batch, classes)
    results = []
    for _ in range(20):
        x = torch.randn(batch, width, device="cuda")
        results.append(engine.run(x))
    print(len(results), results[0][:4])


if __name__ == "__main__":
    main()
