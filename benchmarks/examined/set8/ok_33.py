import cupy as cp
import torch


class SpectrumSource:
    """Makes power spectra with CuPy on its own stream."""

    def __init__(self, nfft, hop):
        self.nfft = nfft
        self.hop = hop
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.window = cp.hanning(nfft).astype(cp.float32)

    def frames(self, signal):
        n = 1 + (signal.size - self.nfft) // self.hop
        starts = cp.arange(n)[:, None] * self.hop + cp.arange(self.nfft)[None, :]
        return signal[starts] * self.window

    def spectrum(self, host_signal):
        with self.stream:
            spec = cp.fft.rfft(self.frames(cp.asarray(host_signal)), axis=1)
            return (cp.abs(spec) ** 2).astype(cp.float32)

    def wait_for(self, event):
        cp.cuda.runtime.streamWaitEvent(self.stream.ptr, event.cuda_event, 0)


class SpectrumModel:

    def __init__(self, source, net, device):
        self.source = source
        self.net = net
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.no_grad()
    def score(self, host_signal):
        power = self.source.spectrum(host_signal)
        with torch.cuda.stream(self.stream):
            with self.source.stream:
                x = torch.from_dlpack(power)
            feats = torch.log1p(x)
            out = self.net(feats.unsqueeze(0)).mean(dim=1)
            done = torch.cuda.Event()
            done.record(self.stream)
        self.source.wait_for(done)
        del x, power
        return out

    def score_all(self, signals):
        outs = [self.score(s) for s in signals]
        self.stream.synchronize()
        return torch.cat(outs).cpu()
