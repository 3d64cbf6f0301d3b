from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class Lane:
    def __init__(self, index, batch, device):
        self.index = index
        self.stream = torch.cuda.Stream(device)
        self.image_host = torch.empty(batch, 3, 64, 64, pin_memory=True)
        self.image = torch.empty(batch, 3, 64, 64, device=device)
        self.logits_host = torch.empty(batch, 100, pin_memory=True)
        self.done = torch.cuda.Event()
        self.tag = None

    def decode(self, tag):
        gen = torch.Generator().manual_seed(tag)
        self.image_host.uniform_(0.0, 1.0, generator=gen)
        self.image_host.sub_(0.45).div_(0.22)
        self.tag = tag
        return self

    def launch(self, net):
        with torch.cuda.stream(self.stream):
            self.image.copy_(self.image_host, non_blocking=True)
            self.logits_host.copy_(net(self.image), non_blocking=True)
            self.done.record(self.stream)

    def finish(self):
        self.done.synchronize()
        return self.tag, self.logits_host.argmax(dim=1).tolist()


def make_net(device):
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 100),
    ).to(device).eval()


class Sweeper:
    def __init__(self, lanes=6, batch=32, workers=3):
        self.device = torch.device("cuda")
        self.net = make_net(self.device)
        self.lanes = [Lane(i, batch, self.device) for i in range(lanes)]
        self.pool = ThreadPoolExecutor(max_workers=workers)
        here = torch.cuda.current_stream(self.device)
        for lane in self.lanes:
            lane.stream.wait_stream(here)

    @torch.no_grad()
    def run(self, tags):
        answers = {}
        for base in range(0, len(tags), len(self.lanes)):
            group = tags[base:base + len(self.lanes)]
            ready = list(self.pool.map(lambda pair: pair[0].decode(pair[1]), zip(self.lanes, group)))
            for lane in ready:
                lane.launch(self.net)
            answers.update(lane.finish() for lane in ready)
        return answers

    def close(self):
        self.pool.shutdown()


if __name__ == "__main__":
    sweeper = Sweeper()
    out = sweeper.run(list(range(240)))
    sweeper.close()
    print(len(out), sum(len(v) for v in out.values()))
