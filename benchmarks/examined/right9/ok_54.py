import torch
from torch import nn


class TwoBranch(nn.Module):
    """Spatial and frequency branches evaluated on two streams."""

    def __init__(self, channels):
        super().__init__()
        self.spatial = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.GELU())
        self.freq = nn.Conv2d(2 * channels, 2 * channels, 1)
        self.side = torch.cuda.Stream()

    def _spectral(self, x):
        z = torch.fft.rfft2(x)
        y = self.freq(torch.cat([z.real, z.imag], 1))
        re, im = y.chunk(2, dim=1)
        return torch.fft.irfft2(torch.complex(re.contiguous(), im.contiguous()), s=x.shape[-2:])

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            b = self._spectral(x)
        a = self.spatial(x)
        main.wait_stream(self.side)
        x.record_stream(self.side)
        b.record_stream(main)
        return x + a + b


def main():
    net = nn.Sequential(nn.Conv2d(1, 16, 1), *[TwoBranch(16) for _ in range(4)], nn.Conv2d(16, 1, 1)).cuda()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(50):
        x = torch.randn(4, 1, 64, 64, device="cuda")
        loss = nn.functional.mse_loss(net(x), x.roll(1, -1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
