import torch


class Reader:
    """Fills one shared page from pinned host rows."""

    def __init__(self, page, *, stream=None):
        self.page = page
        self.stream = stream or torch.cuda.Stream()

    def read(self, rows):
        with torch.cuda.stream(self.stream):
            self.page[: rows.shape[0]].copy_(rows, non_blocking=True)
        return rows.shape[0]


class Reducer:
    def __init__(self, page, *, stream=None):
        self.page = page
        self.stream = stream or torch.cuda.Stream()
        self.best = None

    def start(self, width):
        with torch.cuda.stream(self.stream):
            self.best = torch.full((width,), float("-inf"), device=self.page.device)

    def reduce(self, n):
        with torch.cuda.stream(self.stream):
            top = self.page[:n].amax(dim=0)
            torch.maximum(self.best, top, out=self.best)

    def value(self):
        self.stream.synchronize()
        return self.best.tolist()


class MaxJob:
    kinds = (Reader, Reducer)

    def __init__(self, rows, width, **common):
        page = torch.empty(rows, width, device="cuda")
        common["stream"].wait_stream(torch.cuda.current_stream())
        self.reader, self.reducer = (kind(page, **common) for kind in self.kinds)
        self.reducer.start(width)

    def run(self, chunks):
        for chunk in chunks:
            self.reducer.reduce(self.reader.read(chunk))
        return self.reducer.value()


def open_job(rows, width):
    return MaxJob(rows, width, stream=torch.cuda.Stream(priority=-1))


def main():
    rows, width = 1024, 32
    chunks = [torch.randn(rows - 64 * i, width).pin_memory() for i in range(8)]
    job = open_job(rows, width)
    got = job.run(chunks)
    want = torch.cat(chunks).amax(0).tolist()
    print(max(abs(a - b) for a, b in zip(got, want)))


if __name__ == "__main__":
    main()
