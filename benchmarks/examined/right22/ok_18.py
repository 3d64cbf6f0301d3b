import torch


class Shards:
    def __init__(self, groups, members, size):
        self.streams = []
        self.acc = []
        self.marks = []
        for g in range(groups):
            self.streams.append(torch.cuda.Stream())
            self.acc.append([])
            self.marks.append([])
            for m in range(members):
                self.acc[g].append(torch.zeros(size, device="cuda"))
                self.marks[g].append(None)
        base = torch.cuda.current_stream().record_event()
        for s in self.streams:
            s.wait_event(base)

    def add(self, g, m, x):
        lane = self.streams[g]
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self.acc[g][m].add_(x, alpha=0.5)
            x.record_stream(lane)
            self.marks[g][m] = lane.record_event()

    def peek(self, g, m):
        mark = self.marks[g][m]
        if mark is not None:
            torch.cuda.current_stream().wait_event(mark)
        else:
            torch.cuda.current_stream().wait_stream(self.streams[g])
        return self.acc[g][m].clone()

    def mix(self, g):
        lane = self.streams[g]
        with torch.cuda.stream(lane):
            return torch.stack(self.acc[g]).sum(0).cpu()


def route(x, groups, members):
    key = int(x[0].item() * 1000)
    return key % groups, key // groups % members


def main():
    groups, members, size = 3, 5, 1 << 15
    shards = Shards(groups, members, size)
    drift = torch.zeros((), device="cuda")
    for _ in range(60):
        x = torch.rand(size, device="cuda")
        g, m = route(x, groups, members)
        shards.add(g, m, x)
        if key_is_due(g, m):
            drift += shards.peek(g, m).mean()
    for g in range(groups):
        print(g, shards.mix(g).mean().item())
    print(drift.item())


def key_is_due(g, m):
    return (g + m) % 2 == 0


if __name__ == "__main__":
    main()
