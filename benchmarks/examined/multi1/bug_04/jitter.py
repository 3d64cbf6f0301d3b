import torch


class Jitter:
    """Random brightness gain per image, in place."""

    def __init__(self, low=0.8, high=1.2, device="cuda"):
        self.low = low
        self.high = high
        self.device = torch.device(device)
        self.side = torch.cuda.Stream(device=self.device)

    def _gains(self, n):
        return torch.empty(n, 1, 1, 1, device=self.device).uniform_(self.low, self.high)

    def apply(self, batch):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            batch.mul_(self._gains(batch.shape[0]))
        batch.record_stream(self.side)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.side)

    def __repr__(self):
        return f"Jitter({self.low}, {self.high})"
