import torch


class Spiller:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device=device)
        self.inflight = {}
        self.host = {}

    def spill(self, key, tensor):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        done = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
            done.record()
        self.inflight[key] = (tensor, done)
        self.host[key] = host

    def complete(self, key):
        tensor, done = self.inflight.pop(key)
        done.synchronize()
        return self.host.pop(key)

    def forget(self, key):
        self.inflight.pop(key, None)
        self.host.pop(key, None)

    def __contains__(self, key):
        return key in self.host
