from collections import UserList

import torch


class Deferred(UserList):
    """A list of (tensor, event); reading an element makes the reader's stream wait."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def append(self, tensor):
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream())
        super().append((tensor, event))

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self.data)))]
        tensor, event = self.data[i]
        reader = torch.cuda.current_stream()
        reader.wait_event(event)
        tensor.record_stream(reader)
        self.reads += 1
        return tensor

    def __iter__(self):
        for i in range(len(self.data)):
            yield self[i]


class Pyramid:
    def __init__(self, levels):
        self.levels = levels
        self.lanes = [torch.cuda.Stream() for _ in range(levels)]

    def build(self, image):
        bands = Deferred()
        bands.append(image)
        for lane in self.lanes:
            with torch.cuda.stream(lane):
                prev = bands[-1]
                low = torch.nn.functional.avg_pool2d(prev, 2)
                bands.append(low)
        return bands

    def detail(self, bands):
        gaps = Deferred()
        for n, lane in enumerate(reversed(self.lanes)):
            with torch.cuda.stream(lane):
                fine, coarse = bands[n : n + 2]
                up = torch.nn.functional.interpolate(coarse, scale_factor=2, mode="bilinear")
                gaps.append(fine - up)
        return gaps


def energy(gaps):
    return torch.stack([g.square().mean() for g in gaps]).tolist()


@torch.no_grad()
def main():
    pyr = Pyramid(4)
    for seed in range(6):
        torch.manual_seed(seed)
        img = torch.rand(2, 3, 512, 512, device="cuda")
        bands = pyr.build(img)
        del img
        gaps = pyr.detail(bands)
        print(seed, [round(e, 5) for e in energy(gaps)], bands.reads + gaps.reads)


if __name__ == "__main__":
    main()
