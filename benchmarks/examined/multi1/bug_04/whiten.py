import torch


class Whitener:
    """Channel-wise normalization of image batches, in place."""

    def __init__(self, mean, std, device="cuda"):
        self.lane = torch.cuda.Stream(device=device)
        self.mean = torch.tensor(mean).view(1, -1, 1, 1).to(device)
        self.std = torch.tensor(std).view(1, -1, 1, 1).to(device)

    def apply(self, batch):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            batch.sub_(self.mean).div_(self.std)
        batch.record_stream(self.lane)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.lane)

    def invert(self, batch):
        return batch * self.std + self.mean

    def __repr__(self):
        return f"Whitener(channels={self.mean.numel()})"
