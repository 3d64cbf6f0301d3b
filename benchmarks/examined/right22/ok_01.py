import argparse

import torch


class PlainMover:
    """Brings a host block to the device, in the caller's stream."""

    def __init__(self, device):
        self.device = device
        self._held = {}

    def begin(self, key, host):
        self._held[key] = host.to(self.device)

    def take(self, key):
        return self._held.pop(key)


class SideMover(PlainMover):
    def __init__(self, device):
        super().__init__(device)
        self.stream = torch.cuda.Stream(device)
        self._marks = {}

    def begin(self, key, host):
        mark = torch.cuda.Event()
        with torch.cuda.stream(self.stream):
            self._held[key] = host.to(self.device, non_blocking=True)
            mark.record(self.stream)
        self._marks[key] = mark

    def take(self, key):
        now = torch.cuda.current_stream(self.device)
        now.wait_event(self._marks.pop(key))
        block = super().take(key)
        block.record_stream(now)
        return block


MOVERS = {"plain": PlainMover, "side": SideMover}


def make_mover(name, device):
    return MOVERS[name](device)


class BlockScorer:
    def __init__(self, blocks, mover):
        self.blocks = blocks
        self.mover = mover

    def __call__(self, x):
        self.mover.begin(0, self.blocks[0])
        for i in range(len(self.blocks)):
            if i + 1 < len(self.blocks):
                self.mover.begin(i + 1, self.blocks[i + 1])
            w = self.mover.take(i)
            x = torch.relu(x @ w)
            del w
        return x


def run_rounds(scorer, batches, on_score):
    for n, batch in enumerate(batches):
        out = scorer(batch)
        on_score(n, out.norm().item())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--mover", default="side", choices=sorted(MOVERS))
    ap.add_argument("--width", type=int, default=1024)
    ap.add_argument("--depth", type=int, default=6)
    args = ap.parse_args()
    device = torch.device("cuda")
    blocks = [torch.randn(args.width, args.width).pin_memory() for _ in range(args.depth)]
    scorer = BlockScorer(blocks, make_mover(args.mover, device))
    batches = (torch.randn(64, args.width, device=device) for _ in range(10))
    seen = {}
    run_rounds(scorer, batches, seen.__setitem__)
    print(seen)


if __name__ == "__main__":
    main()
