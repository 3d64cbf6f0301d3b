import torch


class PredictorGraph:
    """Captured codebook predictor: one backbone hidden state in, 15 residual codes out."""

    def __init__(self, predictor, hidden, num_codebooks, device):
        self.predictor = predictor
        self.input = torch.zeros((1, hidden), device=device)
        self.num_codebooks = num_codebooks
        self.graph = None
        self.output = None

    @torch.inference_mode()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.predictor(self.input)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.predictor(self.input)

    def run(self, hidden):
        self.input.copy_(hidden)
        self.graph.replay()
        return self.output


class TalkerGraph:
    def __init__(self, talker, dim, device):
        self.talker = talker
        self.embed = torch.zeros((1, dim), device=device)
        self.position = torch.zeros((1,), dtype=torch.int64, device=device)
        self.graph = None

    @torch.inference_mode()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.talker(self.embed, self.position)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.hidden, self.logits = self.talker(self.embed, self.position)

    def run(self, embed, position):
        self.embed.copy_(embed)
        self.position.fill_(position)
        self.graph.replay()
        return self.hidden, self.logits


@torch.inference_mode()
def generate_streaming(talker, predictor, embed_fn, codec, start, max_frames, eos, chunk_size=8, left=25):
    chunk = []
    history = []
    embed = start
    for pos in range(max_frames):
        hidden, logits = talker.run(embed, pos)
        first = logits.argmax(-1)
        residual = predictor.run(hidden)
        frame = torch.cat([first.view(1, 1), residual.view(1, -1)], dim=1)
        if int(frame[0, 0]) == eos:
            break
        chunk.append(frame)
        embed = embed_fn(frame)
        if len(chunk) == chunk_size:
            context = history[-left:]
            codes = torch.cat(context + chunk, dim=0)
            wav = codec(codes)
            samples = wav.shape[-1] // codes.shape[0]
            yield wav[..., len(context) * samples :].cpu().numpy()
            history = (history + chunk)[-left:]
            chunk = []
    if chunk:
        context = history[-left:]
        codes = torch.cat(context + chunk, dim=0)
        wav = codec(codes)
        samples = wav.shape[-1] // codes.shape[0]
        yield wav[..., len(context) * samples :].cpu().numpy()
