"""Streaming vocoder: a captured decoder graph turns code chunks into audio."""
import torch
from torch import nn


class Vocoder(nn.Module):
    def __init__(self, codebook=1024, width=512, hop=320):
        super().__init__()
        self.embed = nn.Embedding(codebook, width)
        self.mix = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, hop), nn.Tanh()
        )

    def forward(self, codes):
        return self.mix(self.embed(codes)).flatten(1)


class GraphRunner:
    def __init__(self, model, batch, frames):
        self.model = model
        self.static_codes = torch.zeros(batch, frames, dtype=torch.long, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm), torch.no_grad():
            for _ in range(3):
                self.model(self.static_codes)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = self.model(self.static_codes)
        torch.cuda.synchronize()

    def __call__(self, codes):
        self.static_codes.copy_(codes)
        self.graph.replay()
        return self.static_out


class StreamingDecoder:
    def __init__(self, runner):
        self.runner = runner
        self.copy_stream = torch.cuda.Stream()

    def decode(self, codes):
        wave = self.runner(codes)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        host = torch.empty(wave.shape, dtype=wave.dtype, pin_memory=True)
        arrived = torch.cuda.Event()
        with torch.cuda.stream(self.copy_stream):
            host.copy_(wave, non_blocking=True)
            arrived.record()
        return host, arrived


def drain(chunks):
    audio = []
    for host, arrived in chunks:
        arrived.synchronize()
        audio.append(host)
    return torch.cat(audio, dim=1)


def main(batch=32, frames=512, chunks=24):
    model = Vocoder().cuda().eval()
    decoder = StreamingDecoder(GraphRunner(model, batch, frames))
    stream_of_codes = [torch.randint(0, 1024, (batch, frames), device="cuda") for _ in range(chunks)]
    torch.cuda.synchronize()

    sent = [decoder.decode(codes) for codes in stream_of_codes]
    audio = drain(sent)

    with torch.no_grad():
        want = torch.cat([model(c) for c in stream_of_codes], dim=1).cpu()
    print("samples", audio.shape[1], "max diff", float((audio - want).abs().max()))


if __name__ == "__main__":
    main()
