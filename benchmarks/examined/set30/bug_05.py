"""Feature extraction in one process, scoring in another; tensors travel as CUDA handles."""
import torch
import torch.multiprocessing as mp
from torch import nn


class Extractor:
    def __init__(self, dim, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2), nn.ReLU(), nn.Conv2d(64, dim, 3, stride=2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device).eval()
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.no_grad()
    def __call__(self, frames):
        with torch.cuda.stream(self.stream):
            batch = frames.to(self.device, non_blocking=True)
            return self.net(batch.float().div_(255))


def frame_batches(count, batch):
    gen = torch.Generator().manual_seed(0)
    for _ in range(count):
        shape = (batch, 3, 224, 224)
        yield torch.randint(0, 256, shape, dtype=torch.uint8, generator=gen).pin_memory()


def producer(features, released, count, batch, dim):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    extract = Extractor(dim, device)
    alive = {}
    for index, frames in enumerate(frame_batches(count, batch)):
        out = extract(frames)
        alive[index] = (frames, out)
        features.put((index, out))
        while not released.empty():
            alive.pop(released.get())
    features.put(None)
    while alive:
        alive.pop(released.get())


def consumer(features, released, results, dim):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    head = nn.Linear(dim, 10).to(device)
    while True:
        item = features.get()
        if item is None:
            break
        index, feats = item
        with torch.inference_mode():
            labels = head(feats).argmax(dim=1).cpu()
        del feats, item
        released.put(index)
        results.put((index, labels))
    results.put(None)


def run(count=64, batch=32, dim=512):
    ctx = mp.get_context("spawn")
    features, released, results = ctx.Queue(8), ctx.Queue(), ctx.Queue()
    procs = [
        ctx.Process(target=producer, args=(features, released, count, batch, dim)),
        ctx.Process(target=consumer, args=(features, released, results, dim)),
    ]
    for proc in procs:
        proc.start()
    scores = {}
    for index, labels in iter(results.get, None):
        scores[index] = labels
    for proc in procs:
        proc.join()
    return scores


if __name__ == "__main__":
    print(len(run()))
