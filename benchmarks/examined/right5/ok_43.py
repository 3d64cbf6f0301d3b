import torch
from torch import nn


class GraphedFn:
    """Captures ``fn`` over static inputs, on a stream chosen by the caller."""

    def __init__(self, fn, example: torch.Tensor, stream: torch.cuda.Stream):
        self.stream = stream
        self.static_in = example.clone()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                fn(self.static_in)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.static_out = fn(self.static_in)
        self.finished = torch.cuda.Event()

    def launch(self, src: torch.Tensor, *after: torch.cuda.Event) -> torch.cuda.Event:
        with torch.cuda.stream(self.stream):
            for e in after:
                self.stream.wait_event(e)
            self.static_in.copy_(src)
            self.graph.replay()
            self.finished.record()
        return self.finished


@torch.no_grad()
def main():
    enc = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
    dec = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 64)).cuda()
    example = torch.zeros(128, 512, device="cuda")
    encoder = GraphedFn(enc, example, torch.cuda.Stream())
    decoder = GraphedFn(dec, example, torch.cuda.Stream())
    outputs = torch.empty(32, 128, 64, device="cuda")
    inputs = torch.randn(32, 128, 512, device="cuda")
    latent = torch.empty(128, 512, device="cuda")

    start = torch.cuda.current_stream().record_event()
    latent_free = stored = start
    for i in range(32):
        encoder.launch(inputs[i], start)
        with torch.cuda.stream(encoder.stream):
            encoder.stream.wait_event(latent_free)
            latent.copy_(encoder.static_out)
            latent_ready = encoder.stream.record_event()
        decoder.launch(latent, latent_ready)
        with torch.cuda.stream(decoder.stream):
            outputs[i].copy_(decoder.static_out)
            latent_free = stored = decoder.stream.record_event()
    torch.cuda.current_stream().wait_event(stored)
    print(outputs.std().item())
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
