import torch


class Previewer:
    """Keeps intermediate latents on the host, copied beside the sampling."""

    def __init__(self, latent, every, limit):
        self.latent = latent
        self.every = every
        self.stream = torch.cuda.Stream()
        self.frames = torch.empty((limit, *latent.shape), pin_memory=True)
        self.count = 0
        self.busy = None

    def after_replay(self, k):
        if k % self.every or self.count == len(self.frames):
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.frames[self.count].copy_(self.latent, non_blocking=True)
        self.busy = self.stream.record_event()
        self.count += 1

    def before_replay(self, k):
        if self.busy is not None:
            self.busy.wait(torch.cuda.current_stream())
            self.busy = None

    def result(self):
        self.stream.synchronize()
        return self.frames[:self.count]
