import torch


class AttnInputs:
    def __init__(self, input_lengths, max_tokens):
        self.input_lengths = input_lengths
        self.max_tokens = max_tokens


class PrefillImpl:
    def __init__(self, hidden, max_batch, device="cuda"):
        self.hidden = hidden
        self.max_batch = max_batch
        self.device = torch.device(device)
        self.input_lengths = None
        self.cu_seq_lens = None

    def prepare(self, attn_inputs):
        lengths = attn_inputs.input_lengths
        batch = lengths.numel()
        if self.input_lengths is None:
            self.input_lengths = torch.zeros(self.max_batch, dtype=torch.int32, device=self.device)
        self.input_lengths.zero_()
        self.input_lengths[:batch].copy_(lengths, non_blocking=True)
        self.cu_seq_lens = torch.empty(self.max_batch + 1, dtype=torch.int32, device=self.device)
        self.cu_seq_lens[0] = 0
        torch.cumsum(self.input_lengths, dim=0, dtype=torch.int32, out=self.cu_seq_lens[1:])

    def small2large(self, x, max_seq):
        pos = torch.arange(max_seq, device=x.device, dtype=torch.int32)
        idx = self.cu_seq_lens[:-1, None] + pos[None, :]
        valid = pos[None, :] < self.input_lengths[:, None]
        rows = x[idx.clamp_(0, x.shape[0] - 1).long()]
        return torch.where(valid[..., None], rows, rows.new_zeros(()))

    def forward(self, x, weight, max_seq):
        padded = self.small2large(x, max_seq)
        scores = torch.softmax(padded @ weight @ padded.transpose(1, 2), dim=-1)
        return (scores @ padded).sum(dim=1)


class PrefillGraph:
    def __init__(self, impl, weight, max_tokens, max_seq):
        self.impl = impl
        self.weight = weight
        self.max_seq = max_seq
        self.x = torch.zeros(max_tokens, impl.hidden, device=impl.device, dtype=weight.dtype)
        self.graph = None
        self.out = None

    @torch.no_grad()
    def capture(self, attn_inputs):
        self.impl.prepare(attn_inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.impl.forward(self.x, self.weight, self.max_seq)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.impl.forward(self.x, self.weight, self.max_seq)

    @torch.no_grad()
    def run(self, tokens, attn_inputs):
        if self.graph is None:
            self.capture(attn_inputs)
        self.impl.prepare(attn_inputs)
        self.x[: tokens.shape[0]].copy_(tokens)
        self.graph.replay()
        return self.out[: attn_inputs.input_lengths.numel()].clone()
