"""Template matching in a child process: tiles are shared through CUDA IPC, two at a time."""
import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

SLOTS = 2
SIDE = 1024


def spectrum(tile):
    return torch.fft.rfft2(tile)


class TileWriter:
    def __init__(self, shared, ready, taken):
        self.shared, self.ready, self.taken = shared, ready, taken
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.kernel = torch.ones(1, 1, 5, 5, device="cuda") / 25.0
        self.stream.wait_stream(torch.cuda.current_stream())

    def _render(self, index):
        gen = torch.Generator(device="cuda").manual_seed(index)
        noise = torch.randn(1, 1, SIDE, SIDE, device="cuda", generator=gen)
        return F.conv2d(noise, self.kernel, padding=2)[0, 0]

    def write(self, index):
        slot = index % SLOTS
        if index >= SLOTS:
            self.taken[slot].acquire()
        with torch.cuda.stream(self.stream):
            self.shared[slot].copy_(self._render(index), non_blocking=True)
        self.stream.synchronize()
        self.ready.put((index, slot))

    def finish(self, total):
        for index in range(max(0, total - SLOTS), total):
            self.taken[index % SLOTS].acquire()
        self.ready.put(None)


class TileMatcher:
    def __init__(self, shared, template):
        self.shared = shared
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.template = spectrum(template.to("cuda")).conj()
            self.local = torch.empty(SIDE, SIDE, device="cuda")

    def match(self, slot):
        with torch.cuda.stream(self.stream):
            self.local.copy_(self.shared[slot], non_blocking=True)
            fetched = self.stream.record_event()
            score = torch.fft.irfft2(spectrum(self.local) * self.template)
            best = score.max()
        return fetched, best


def matcher_main(shared, ready, taken, template, results):
    matcher = TileMatcher(shared, template)
    found = []
    while True:
        item = ready.get()
        if item is None:
            break
        index, slot = item
        fetched, best = matcher.match(slot)
        fetched.synchronize()
        taken[slot].release()
        found.append((index, best))
    matcher.stream.synchronize()
    results.put([(i, float(b)) for i, b in found])
    del matcher, shared


def main(tiles=40):
    ctx = mp.get_context("spawn")
    shared = torch.zeros(SLOTS, SIDE, SIDE, device="cuda")
    template = torch.zeros(SIDE, SIDE)
    template[:32, :32] = torch.hann_window(32)[:, None] * torch.hann_window(32)[None]
    torch.cuda.synchronize()
    ready, results = ctx.Queue(), ctx.Queue()
    taken = [ctx.Semaphore(0) for _ in range(SLOTS)]
    child = ctx.Process(target=matcher_main, args=(shared, ready, taken, template, results))
    child.start()
    writer = TileWriter(shared, ready, taken)
    for index in range(tiles):
        writer.write(index)
    writer.finish(tiles)
    scores = results.get()
    child.join()
    print(len(scores), max(scores, key=lambda s: s[1]))


if __name__ == "__main__":
    main()
