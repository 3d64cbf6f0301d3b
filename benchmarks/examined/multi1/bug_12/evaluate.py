import numpy as np
import torch
from torch import nn

from xfer import *


class Confusion:
    def __init__(self, classes):
        self.table = np.zeros((classes, classes), dtype=np.int64)

    def add(self, labels, preds):
        np.add.at(self.table, (labels.numpy(), preds.numpy()), 1)

    def accuracy(self):
        return np.trace(self.table) / max(self.table.sum(), 1)


@torch.no_grad()
def evaluate(net, batches, classes):
    confusion = Confusion(classes)
    embeddings = []
    for x, labels in batches:
        hidden = net[0](x.to("cuda"))
        embeddings.append(fetch_async(hidden[:, :32].contiguous()))
        preds = fetch_async(net[1](hidden).argmax(dim=1))
        confusion.add(labels, preds)
    fence()
    return confusion.accuracy(), torch.cat(embeddings)


if __name__ == "__main__":
    body = nn.Sequential(nn.Linear(256, 2048), nn.GELU())
    net = nn.Sequential(body, nn.Linear(2048, 20)).to("cuda")
    data = [(torch.randn(8192, 256), torch.randint(0, 20, (8192,))) for _ in range(12)]
    acc, emb = evaluate(net, data, 20)
    print(acc, emb.shape)
