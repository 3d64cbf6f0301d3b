import queue
import tempfile
import threading

import numpy as np
import torch


class Page:
    def __init__(self, rows, cols):
        self.host = torch.empty(rows, cols, pin_memory=True)
        self.used = 0
        self.event = torch.cuda.Event()


class RowWriter:
    """Rows gather in a pinned page; full pages are written by a thread."""

    def __init__(self, path, rows, cols, pages=2):
        self.file = open(path, "wb")
        self.rows = rows
        self.stream = torch.cuda.Stream()
        self.empty = queue.Queue()
        self.full = queue.Queue()
        for _ in range(pages):
            self.empty.put(Page(rows, cols))
        self.page = self.empty.get()
        self.thread = threading.Thread(target=self._drain)
        self.thread.start()

    def _drain(self):
        while True:
            page = self.full.get()
            if page is None:
                return
            page.event.synchronize()
            self.file.write(page.host[: page.used].numpy().tobytes())
            page.used = 0
            self.empty.put(page)

    def write(self, block):
        self.stream.wait_stream(torch.cuda.current_stream())
        block.record_stream(self.stream)
        done = 0
        while done < len(block):
            n = min(len(block) - done, self.rows - self.page.used)
            at = self.page.used
            with torch.cuda.stream(self.stream):
                self.page.host[at : at + n].copy_(block[done : done + n], non_blocking=True)
            self.page.used += n
            done += n
            if self.page.used == self.rows:
                self._turn()

    def _turn(self):
        self.page.event.record(self.stream)
        self.full.put(self.page)
        self.page = self.empty.get()

    def close(self):
        self._turn()
        self.full.put(None)
        self.thread.join()
        self.file.close()


@torch.no_grad()
def main(cols=64):
    proj = torch.randn(256, cols, device="cuda")
    sizes = [100, 700, 3, 1500, 256, 41]
    with tempfile.NamedTemporaryFile() as tmp:
        out = RowWriter(tmp.name, rows=512, cols=cols)
        for n in sizes:
            out.write(torch.randn(n, 256, device="cuda") @ proj)
        out.close()
        data = np.fromfile(tmp.name, dtype=np.float32).reshape(-1, cols)
    print(data.shape, data.std())


if __name__ == "__main__":
    main()
