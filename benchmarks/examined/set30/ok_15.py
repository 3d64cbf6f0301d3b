"""Streaming vocoder: two captured copies of the decoder alternate, audio leaves on a copy stream."""
import torch
from torch import nn


class Slot:
    def __init__(self, decoder, frames, codebooks, stream):
        self.codes = torch.zeros(frames, codebooks, dtype=torch.int64, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.drained = torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                decoder(self.codes)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.audio = decoder(self.codes)
        self.host = torch.empty(self.audio.shape, dtype=self.audio.dtype, pin_memory=True)


class Vocoder(nn.Module):
    def __init__(self, codebooks, entries, width, hop):
        super().__init__()
        self.tables = nn.Parameter(torch.randn(codebooks, entries, width) / codebooks)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.out = nn.Linear(width, hop)

    def forward(self, codes):
        picked = [table[column] for table, column in zip(self.tables, codes.unbind(1))]
        h = torch.stack(picked).sum(0)
        return torch.tanh(self.out(h + self.mix(h))).flatten()


class StreamingDecoder:
    def __init__(self, decoder, frames, codebooks):
        with torch.no_grad():
            stream = torch.cuda.Stream()
            self.slots = [Slot(decoder, frames, codebooks, stream) for _ in range(2)]
        self.main = torch.cuda.Stream()
        self.main.wait_stream(torch.cuda.current_stream())
        self.copy = torch.cuda.Stream()
        self.turn = 0

    def submit(self, host_codes):
        """Starts one chunk; ``host_codes`` is an int64 tensor in host memory."""
        slot = self.slots[self.turn % 2]
        self.turn += 1
        staged = host_codes.pin_memory()
        with torch.cuda.stream(self.main):
            self.main.wait_event(slot.drained)
            slot.codes.copy_(staged, non_blocking=True)
            slot.graph.replay()
        self.copy.wait_stream(self.main)
        with torch.cuda.stream(self.copy):
            slot.host.copy_(slot.audio, non_blocking=True)
            slot.drained.record(self.copy)
        return slot

    @staticmethod
    def collect(slot):
        slot.drained.synchronize()
        return slot.host.clone()

    def decode(self, chunks):
        previous = None
        for chunk in chunks:
            current = self.submit(chunk)
            if previous is not None:
                yield self.collect(previous)
            previous = current
        if previous is not None:
            yield self.collect(previous)


def main(chunks=64, frames=32, codebooks=16, entries=2048, width=1024, hop=1920):
    decoder = Vocoder(codebooks, entries, width, hop).cuda().eval()
    stream = StreamingDecoder(decoder, frames, codebooks)
    source = (torch.randint(0, entries, (frames, codebooks)) for _ in range(chunks))
    return torch.cat(list(stream.decode(source)))


if __name__ == "__main__":
    print(main().shape)
