"""Streaming vocoder: one incremental decode graph per width, replayed chunk by chunk."""
import torch
from torch import nn


class CausalDecoder(nn.Module):
    """Keeps its left context in per-layer state tensors that are updated in place."""

    def __init__(self, n_codes, dim, hop):
        super().__init__()
        self.embed = nn.Embedding(n_codes, dim)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, 3) for _ in range(4))
        self.out = nn.Linear(dim, hop)
        for i in range(4):
            self.register_buffer(f"state{i}", torch.zeros(1, dim, 2), persistent=False)

    def reset(self):
        for i in range(4):
            getattr(self, f"state{i}").zero_()

    def forward(self, codes):
        x = self.embed(codes).transpose(1, 2)
        for i, conv in enumerate(self.convs):
            state = getattr(self, f"state{i}")
            padded = torch.cat([state, x], dim=2)
            state.copy_(padded[:, :, -2:])
            x = x + torch.nn.functional.gelu(conv(padded))
        return torch.tanh(self.out(x.transpose(1, 2))).flatten(1)


class WindowGraphRunner:
    """Captured decode steps for a fixed set of widths that share one memory pool."""

    def __init__(self, decoder, widths, device):
        self.decoder = decoder
        self.widths = sorted(widths, reverse=True)
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {}
        stream = torch.cuda.Stream(device=device)
        stream.wait_stream(torch.cuda.current_stream(device))
        for width in self.widths:
            static_in = torch.zeros(1, width, dtype=torch.long, device=device)
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream), torch.inference_mode():
                for _ in range(2):
                    decoder(static_in)
            torch.cuda.current_stream(device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.inference_mode(), torch.cuda.graph(graph, pool=self.pool, stream=stream):
                static_out = decoder(static_in)
            self.entries[width] = (graph, static_in, static_out)
        decoder.reset()

    def decode(self, codes, hop):
        """Consume codes as a sequence of captured widths, largest first."""
        total = codes.shape[1]
        waveform = torch.empty(1, total * hop, device=codes.device)
        done = 0
        while done < total:
            width = next(w for w in self.widths if w <= total - done)
            graph, static_in, static_out = self.entries[width]
            static_in.copy_(codes[:, done : done + width])
            graph.replay()
            waveform[:, done * hop : (done + width) * hop].copy_(static_out)
            done += width
        return waveform


class StreamingVocoder:
    def __init__(self, decoder, hop, device, widths=(1, 2, 4, 8, 16, 32, 64)):
        self.hop = hop
        self.device = device
        self.decoder = decoder
        self.runner = WindowGraphRunner(decoder, widths, device)
        self.host = [torch.empty(1, 64 * 8 * hop, pin_memory=True) for _ in range(2)]
        self.turn = 0

    @torch.inference_mode()
    def push(self, codes_cpu):
        codes = codes_cpu.pin_memory().to(self.device, non_blocking=True)
        waveform = self.runner.decode(codes, self.hop)
        host = self.host[self.turn][:, : waveform.shape[1]]
        self.turn ^= 1
        host.copy_(waveform, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return host, arrived


def synthesize(vocoder, chunks, sink):
    """Play each chunk while the next one is being decoded."""
    vocoder.decoder.reset()
    previous = None
    for codes in chunks:
        current = vocoder.push(codes)
        if previous is not None:
            previous[1].synchronize()
            sink.write(previous[0].numpy().tobytes())
        previous = current
    if previous is not None:
        previous[1].synchronize()
        sink.write(previous[0].numpy().tobytes())
