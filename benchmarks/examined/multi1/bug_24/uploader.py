from collections import deque

import torch


class Uploader:
    def __init__(self, device="cuda", on_queued=None, on_landed=None):
        self.stream = torch.cuda.Stream(device=device)
        self.on_queued = on_queued
        self.on_landed = on_landed
        self.waiting = deque()

    def send(self, buf, dst):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dst.copy_(buf, non_blocking=True)
            mark = torch.cuda.Event()
            mark.record()
        self.waiting.append((mark, buf))
        if self.on_queued:
            self.on_queued(buf)

    def poll(self, block=False):
        while self.waiting and (block or self.waiting[0][0].query()):
            mark, buf = self.waiting.popleft()
            mark.synchronize()
            if self.on_landed:
                self.on_landed(buf)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.stream)
