import torch

from feed import Ahead, collate
from loop import Meter, train_epoch
from model import Ranker


def source(steps, rows, width, slots):
    gen = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield collate(rows, width, slots, gen)


def main(device="cuda:0", steps=200, rows=16384, width=256, slots=32):
    torch.manual_seed(0)
    model = Ranker(width, slots).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    feed = Ahead(source(steps, rows, width, slots), device, depth=2)
    meter = train_epoch(model, feed, opt, Meter(device))
    print(f"loss {meter.value():.4f} over {meter.count}")


if __name__ == "__main__":
    main()
