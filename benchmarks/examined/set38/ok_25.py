"""A producer process renders feature maps into shared slots; a consumer scores them."""
import torch
import torch.multiprocessing as mp
import torch.nn as nn

SLOTS = 3
SHAPE = (32, 256, 28, 28)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 4, 3)
        self.body = nn.Conv2d(64, 256, 3, 2, 1)

    def forward(self, x):
        return torch.relu(self.body(torch.relu(self.stem(x))))


def consumer(feed, free, result):
    torch.cuda.set_device(0)
    slots = feed.get()
    head = nn.Linear(256, 10).cuda().eval()
    score_stream = torch.cuda.Stream()
    score_stream.wait_stream(torch.cuda.current_stream())
    done = torch.cuda.Event(blocking=True)
    votes = torch.zeros(10)
    with torch.no_grad(), torch.cuda.stream(score_stream):
        while True:
            item = feed.get()
            if item is None:
                break
            pooled = slots[item].mean(dim=(2, 3))
            picked = head(pooled).argmax(dim=1)
            done.record()
            done.synchronize()
            free.put(item)
            votes += torch.bincount(picked, minlength=10).cpu()
    result.put(votes.tolist())


class Producer:
    def __init__(self, feed, free):
        self.feed = feed
        self.free = free
        self.net = Backbone().cuda().eval()
        self.slots = [torch.empty(SHAPE, device="cuda") for _ in range(SLOTS)]
        feed.put(self.slots)
        for i in range(SLOTS):
            free.put(i)

    @torch.no_grad()
    def emit(self, frames):
        i = self.free.get()
        self.slots[i].copy_(self.net(frames))
        torch.cuda.current_stream().synchronize()
        self.feed.put(i)

    def close(self):
        self.feed.put(None)


def main():
    ctx = mp.get_context("spawn")
    feed, free, result = ctx.Queue(), ctx.Queue(), ctx.Queue()
    proc = ctx.Process(target=consumer, args=(feed, free, result))
    proc.start()
    torch.manual_seed(0)
    torch.cuda.set_device(0)
    producer = Producer(feed, free)
    for _ in range(40):
        producer.emit(torch.randn(32, 3, 224, 224, device="cuda"))
    producer.close()
    print(result.get())
    proc.join()


if __name__ == "__main__":
    main()
