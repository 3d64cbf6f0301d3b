import torch


class Windows:
    def __init__(self, series, width, batch):
        self.series = series
        self.width = width
        self.batch = batch

    def __len__(self):
        return (self.series.numel() - self.width - 1) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self) * self.batch)
        for b in range(len(self)):
            starts = order[b * self.batch:(b + 1) * self.batch]
            idx = starts[:, None] + torch.arange(self.width)[None]
            yield {
                "x": self.series[idx],
                "y": self.series[starts + self.width][:, None],
            }


def synthetic(n=20000):
    t = torch.arange(n, dtype=torch.float32)
    return torch.sin(t * 0.07) + 0.3 * torch.sin(t * 0.31) + 0.05 * torch.randn(n)
