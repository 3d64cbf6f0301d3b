from collections import deque

import torch


class PinnedPool:
    """Fixed number of pinned blocks, recycled once the copy that used them is over."""

    def __init__(self, nbytes, count):
        self.nbytes = nbytes
        self.idle = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(count)]
        self.busy = deque()

    def _harvest(self):
        still = deque()
        while self.busy:
            event, block = self.busy.popleft()
            if event.query():
                self.idle.append(block)
            else:
                still.append((event, block))
        self.busy = still

    def take(self):
        if not self.idle:
            self._harvest()
        if not self.idle:
            event, block = self.busy.popleft()
            event.synchronize()
            return block
        return self.idle.pop()

    def retire(self, block, stream):
        self.busy.append((stream.record_event(), block))


class TensorUploader:
    def __init__(self, device, block_bytes=8 << 20, blocks=4):
        self.device = device
        self.pool = PinnedPool(block_bytes, blocks)
        self.stream = torch.cuda.Stream(device)

    def load(self, source):
        flat = source.contiguous().view(-1).view(torch.uint8)
        with torch.cuda.stream(self.stream):
            target = torch.empty(flat.numel(), dtype=torch.uint8, device=self.device)
            start = 0
            while start < flat.numel():
                block = self.pool.take()
                size = min(self.pool.nbytes, flat.numel() - start)
                block[:size].copy_(flat[start:start + size])
                target[start:start + size].copy_(block[:size], non_blocking=True)
                self.pool.retire(block, self.stream)
                start += size
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        target.record_stream(current)
        return target.view(source.dtype).view(source.shape)

    def load_state(self, state):
        return {name: self.load(value) if value.numel() else value.to(self.device)
                for name, value in state.items()}


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    state = {
        "embed": torch.randn(50000, 256),
        "proj": torch.randn(256, 4096).half(),
        "ids": torch.arange(1 << 20),
        "scale": torch.tensor(3.0).view(1),
        "empty": torch.empty(0, 4),
    }
    uploader = TensorUploader(device)
    loaded = uploader.load_state(state)
    for name, value in loaded.items():
        print(name, tuple(value.shape), torch.equal(value.cpu(), state[name]))
    doubled = {name: value * 2 for name, value in loaded.items()}
    del loaded
    again = uploader.load(state["embed"])
    print(torch.equal(again * 2, doubled["embed"]))


if __name__ == "__main__":
    main()
