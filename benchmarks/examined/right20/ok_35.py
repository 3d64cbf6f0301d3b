import threading
import time

import torch


class Mailbox:
    """One place on the GPU; the letter flag tells whose turn it is."""

    def __init__(self, shape):
        self.dev = torch.zeros(shape, device="cuda")
        self.letter = None
        torch.cuda.synchronize()

    def post(self, fill, tag):
        while self.letter is not None:
            time.sleep(0)
        fill(self.dev)
        torch.cuda.current_stream().synchronize()
        self.letter = tag

    def take(self, use):
        while self.letter is None:
            time.sleep(0)
        tag = self.letter
        result = use(self.dev, tag)
        torch.cuda.current_stream().synchronize()
        self.letter = None
        return tag, result


class Generator(threading.Thread):
    def __init__(self, box, count):
        super().__init__(daemon=True)
        self.box, self.count = box, count
        self.stream = torch.cuda.Stream()

    def run(self):
        with torch.cuda.stream(self.stream):
            for i in range(self.count):
                self.box.post(self.make(i), ("batch", i))
            self.box.post(lambda dev: None, ("stop", self.count))

    def make(self, i):
        def fill(dev):
            phase = torch.arange(dev.shape[1], device="cuda") * (0.01 * (i + 1))
            dev.copy_(phase.sin().expand_as(dev))
            dev.add_(torch.randn_like(dev), alpha=0.1)

        return fill


class Fitter:
    def __init__(self, width):
        self.cov = torch.zeros(width, width, device="cuda")
        self.count = 0

    def absorb(self, dev, tag):
        kind, i = tag
        if kind == "stop":
            return False
        self.cov.addmm_(dev.T, dev)
        self.count += dev.shape[0]
        return True

    def leading(self):
        return torch.linalg.eigvalsh(self.cov / self.count)[-3:].tolist()


def main(width=96, rows=512, count=50):
    box = Mailbox((rows, width))
    maker = Generator(box, count)
    fitter = Fitter(width)
    maker.start()
    going = True
    while going:
        _, going = box.take(fitter.absorb)
    maker.join()
    print(fitter.count, fitter.leading())


if __name__ == "__main__":
    main()
