"""Orientation search over several streams with one accumulator per stream."""
import torch


class StreamAccumulator:
    def __init__(self, shape, device):
        self.best = torch.full(shape, -float("inf"), device=device)
        self.index = torch.full(shape, -1, dtype=torch.int32, device=device)

    def update(self, score, index):
        better = score > self.best
        self.best = torch.where(better, score, self.best)
        self.index = torch.where(better, torch.full_like(self.index, index), self.index)


class OrientationSearch:
    def __init__(self, image, templates, num_streams=4, device="cuda:0"):
        self.device = torch.device(device)
        self.image_dft = torch.fft.rfftn(image.to(self.device))
        self.templates = templates.to(self.device)
        self.streams = [torch.cuda.Stream(self.device) for _ in range(num_streams)]

    def _cross_correlate(self, k):
        template = self.templates[k]
        padded = torch.zeros(self.shape, device=self.device)
        h, w = template.shape
        padded[:h, :w] = template
        dft = torch.fft.rfftn(padded)
        return torch.fft.irfftn(self.image_dft * dft.conj(), s=self.shape)

    def run(self, shape):
        self.shape = shape
        current = torch.cuda.current_stream(self.device)
        accumulators = []
        for stream in self.streams:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                accumulators.append(StreamAccumulator(shape, self.device))

        for k in range(self.templates.shape[0]):
            lane = k % len(self.streams)
            with torch.cuda.stream(self.streams[lane]):
                accumulators[lane].update(self._cross_correlate(k), k)

        for stream, acc in zip(self.streams, accumulators):
            current.wait_stream(stream)
            acc.best.record_stream(current)
            acc.index.record_stream(current)

        best = torch.stack([a.best for a in accumulators])
        index = torch.stack([a.index for a in accumulators])
        mip, lane = best.max(dim=0)
        which = index.gather(0, lane.unsqueeze(0)).squeeze(0)
        return mip.cpu(), which.cpu()


def search(image, templates):
    finder = OrientationSearch(image, templates)
    mip, which = finder.run(tuple(image.shape))
    return float(mip.max()), int(which.flatten()[mip.argmax()])
