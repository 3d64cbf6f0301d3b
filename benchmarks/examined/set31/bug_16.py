import queue
import threading

import torch


class BatchFetcher:
    def __init__(self, source, depth=2):
        self.source = source
        self.stream = torch.cuda.Stream()
        self.queue = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for batch in self.source:
            pinned = batch.pin_memory()
            with torch.cuda.stream(self.stream):
                staged = pinned.to("cuda", non_blocking=True)
            self.queue.put((pinned, staged))
        self.queue.put(None)

    def __iter__(self):
        while (item := self.queue.get()) is not None:
            pinned, staged = item
            staged.record_stream(torch.cuda.current_stream())
            yield staged


@torch.no_grad()
def main():
    model = torch.nn.Linear(8192, 1024).cuda()
    source = [torch.randn(4096, 8192) for _ in range(8)]
    for batch in BatchFetcher(source):
        print(model(batch).mean().item())


if __name__ == "__main__":
    main()
