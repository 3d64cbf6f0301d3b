"""Two-branch audio model whose branches run side by side."""
import torch
import torch.nn as nn


class SpectralBranch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.window = 1024
        self.net = nn.Sequential(
            nn.Conv1d(513, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, padding=1)
        )

    def forward(self, wave):
        window = torch.hann_window(self.window, device=wave.device)
        spec = torch.stft(wave, self.window, 256, window=window, return_complex=True).abs()
        return self.net(torch.log1p(spec)).mean(-1)


class WaveBranch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width // 2, 64, stride=16),
            nn.GELU(),
            nn.Conv1d(width // 2, width, 16, stride=8),
            nn.GELU(),
        )

    def forward(self, wave):
        return self.net(wave.unsqueeze(1)).mean(-1)


class TwoBranch(nn.Module):
    def __init__(self, width=256, classes=50):
        super().__init__()
        self.spectral = SpectralBranch(width)
        self.wave = WaveBranch(width)
        self.head = nn.Linear(2 * width, classes)
        self._streams = None

    def _side(self, device):
        if self._streams is None:
            self._streams = (torch.cuda.Stream(device), torch.cuda.Stream(device))
        return self._streams

    def forward(self, wave):
        main = torch.cuda.current_stream(wave.device)
        outs = []
        for stream, branch in zip(self._side(wave.device), (self.spectral, self.wave)):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                outs.append(branch(wave))
            wave.record_stream(stream)
        for stream, out in zip(self._side(wave.device), outs):
            main.wait_stream(stream)
            out.record_stream(main)
        return self.head(torch.cat(outs, dim=-1))


class Trainer:
    def __init__(self, device="cuda", lr=1e-3):
        self.device = torch.device(device)
        self.model = TwoBranch().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1000, 0.5)

    def step(self, wave, label):
        wave = wave.to(self.device, non_blocking=True)
        label = label.to(self.device, non_blocking=True)
        loss = nn.functional.cross_entropy(self.model(wave), label)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach(), norm

    def fit(self, loader, epochs):
        history = []
        for _ in range(epochs):
            total = torch.zeros((), device=self.device)
            for wave, label in loader:
                loss, _ = self.step(wave, label)
                total += loss
            history.append(total.item() / max(1, len(loader)))
        return history
