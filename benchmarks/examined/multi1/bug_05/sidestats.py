import torch


class FeatureStats:
    def __init__(self, dim, device="cuda"):
        self.stream = torch.cuda.Stream(device=device)
        self.held = []
        self.count = 0
        self.total = torch.zeros(dim, device=device)
        self.square = torch.zeros(dim, device=device)

    def keep(self, feats):
        self.held.append(feats)
        return feats

    def update(self, feats):
        self.count += feats.shape[0]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.total.add_(feats.sum(0))
            self.square.add_(feats.pow(2).sum(0))

    def result(self):
        self.stream.synchronize()
        self.held.clear()
        mean = self.total / self.count
        return mean, self.square / self.count - mean.pow(2)
