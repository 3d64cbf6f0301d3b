import glob
import sys

import torch
from torch import nn

from loader import ShardLoader
from staging import Uploader


def build(cols):
    return nn.Sequential(nn.Linear(cols, 1024), nn.ReLU(), nn.Linear(1024, 64)).to("cuda")


@torch.no_grad()
def mean_embedding(folder, cols=384):
    net = build(cols).eval()
    loader = ShardLoader(glob.glob(folder + "/*.npy"), Uploader(4096, cols))
    total = torch.zeros(64, device="cuda")
    for x in loader.batches():
        total += net(x).sum(0)
    return (total / max(loader.seen, 1)).cpu()


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "shards"
    print(mean_embedding(folder).norm())
