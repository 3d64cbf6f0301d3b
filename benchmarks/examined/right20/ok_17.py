import torch
from torch.utils.data import Dataset


class Staged(Dataset):
    def __init__(self):
        self.items = []
        self.marks = []
        self.stream = torch.cuda.Stream()

    def __len__(self):
        return len(self.items)

    def stage(self, host):
        with torch.cuda.stream(self.stream):
            dev = host.to("cuda", non_blocking=True)
        self.items.append(dev)

    def seal(self):
        mark = torch.cuda.Event()
        mark.record(self.stream)
        self.marks.append((len(self.items), mark))


class Spectrograms(Staged):
    def __init__(self, clips, n_fft=256):
        super().__init__()
        self.window = torch.hann_window(n_fft, device="cuda")
        self.n_fft = n_fft
        self.stream.wait_stream(torch.cuda.current_stream())
        for i, clip in enumerate(clips):
            self.stage(clip.pin_memory())
            if i % 8 == 7:
                self.seal()
        self.seal()
        self.cursor = 0

    def stage(self, host):
        super().stage(host)
        with torch.cuda.stream(self.stream):
            raw = self.items.pop()
            spec = torch.stft(raw, self.n_fft, window=self.window, return_complex=True)
            self.items.append(spec.abs().log1p())

    def __getitem__(self, i):
        while i >= self.cursor:
            self.cursor, mark = self.marks.pop(0)
            torch.cuda.current_stream().wait_event(mark)
        return self.items[i]


def clips(n):
    for i in range(n):
        t = torch.arange(16000) / 16000.0
        yield torch.sin(2 * torch.pi * (200 + 10 * i) * t) + 0.05 * torch.randn(16000)


def main(n=50):
    data = Spectrograms(clips(n))
    order = torch.randperm(n).tolist()
    mean = torch.zeros_like(data[order[0]])
    for k, i in enumerate(order):
        mean += (data[i] - mean) / (k + 1)
    peak = mean.mean(dim=1).argmax().item()
    print("strongest bin", peak)


if __name__ == "__main__":
    main()
