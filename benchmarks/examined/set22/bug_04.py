"""CUDA-graph runner for fixed-window vocoder decodes in a streaming TTS server."""
import torch


class FollowupDecodeGraphs:
    def __init__(self, decoder, num_quantizers, input_frames, batch_sizes, device):
        self.decoder = decoder
        self.num_quantizers = num_quantizers
        self.input_frames = tuple(input_frames)
        self.batch_sizes = tuple(sorted(batch_sizes, reverse=True))
        self.device = torch.device(device)
        self._graphs = {}

    @torch.inference_mode()
    def capture(self):
        if self._graphs:
            return
        capture_stream = torch.cuda.Stream(device=self.device)
        pool = torch.cuda.graph_pool_handle()
        for frames in self.input_frames:
            for batch_size in self.batch_sizes:
                static_input = torch.zeros(
                    (batch_size, self.num_quantizers, frames),
                    dtype=torch.long,
                    device=self.device,
                )
                with torch.cuda.stream(capture_stream):
                    for _ in range(2):
                        self.decoder(static_input)
                capture_stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, stream=capture_stream):
                    static_output = self.decoder(static_input)
                self._graphs[(frames, batch_size)] = (graph, static_input, static_output)

    def _bucket(self, frames, batch_size):
        for size in reversed(self.batch_sizes):
            if size >= batch_size and (frames, size) in self._graphs:
                return size
        return None

    @torch.inference_mode()
    def decode(self, codes):
        batch_size, _, frames = codes.shape
        bucket = self._bucket(frames, batch_size)
        if bucket is None:
            return self.decoder(codes)
        graph, static_input, static_output = self._graphs[(frames, bucket)]
        static_input[:batch_size].copy_(codes)
        if batch_size < bucket:
            static_input[batch_size:].zero_()
        graph.replay()
        return static_output[:batch_size].clone()


class CodeDecoder(torch.nn.Module):
    def __init__(self, codebook_size, num_quantizers, dim, hop):
        super().__init__()
        self.books = torch.nn.ModuleList(
            [torch.nn.Embedding(codebook_size, dim) for _ in range(num_quantizers)]
        )
        self.up = torch.nn.ConvTranspose1d(dim, 1, kernel_size=hop, stride=hop)

    def forward(self, codes):
        x = sum(book(codes[:, i]) for i, book in enumerate(self.books))
        return self.up(x.transpose(1, 2)).tanh()


def build(device="cuda:0"):
    decoder = CodeDecoder(2048, 16, 512, 1920).to(device).eval()
    torch.cuda.synchronize(device)
    runner = FollowupDecodeGraphs(decoder, 16, (8, 16, 32), (1, 2, 4, 8), device)
    runner.capture()
    return runner
