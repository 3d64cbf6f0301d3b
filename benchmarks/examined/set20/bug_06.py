"""Graph-captured dynamic all-to-all-v dispatch for MoE decoding."""
import torch
import triton
import triton.language as tl


@triton.jit
def _dispatch_kernel(src_ptr, dst_ptrs_ptr, send_counts_ptr, hidden, BLOCK: tl.constexpr):
    peer = tl.program_id(0)
    row = tl.program_id(1)
    count = tl.load(send_counts_ptr + peer)
    if row < count:
        dst = tl.load(dst_ptrs_ptr + peer).to(tl.pointer_type(tl.bfloat16))
        base = 0
        for p in range(peer):
            base += tl.load(send_counts_ptr + p)
        offs = tl.arange(0, BLOCK)
        mask = offs < hidden
        x = tl.load(src_ptr + (base + row) * hidden + offs, mask=mask)
        tl.store(dst + row * hidden + offs, x, mask=mask)


class AllToAllvDynamic:
    def __init__(self, peer_windows, max_rows, hidden, device):
        self.peer_windows = peer_windows
        self.max_rows = max_rows
        self.hidden = hidden
        self.device = device

    def dispatch(self, tokens, send_counts):
        peers = len(self.peer_windows)
        ptrs = torch.tensor(
            [w.data_ptr() for w in self.peer_windows], dtype=torch.int64
        ).to(self.device)
        return self._launch(tokens, send_counts, ptrs, peers)

    def _launch(self, tokens, send_counts, ptrs, peers):
        _dispatch_kernel[(peers, self.max_rows)](
            tokens, ptrs, send_counts, self.hidden,
            BLOCK=triton.next_power_of_2(self.hidden),
        )
        return self.peer_windows

    def make_graphed(self, tokens, send_counts):
        """Capture one dispatch for the given static inputs."""
        peers = len(self.peer_windows)
        ptrs = torch.tensor(
            [w.data_ptr() for w in self.peer_windows], dtype=torch.int64
        ).to(self.device)
        side = torch.cuda.Stream(device=self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            self._launch(tokens, send_counts, ptrs, peers)
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._launch(tokens, send_counts, ptrs, peers)
        return graph


class MoEDecoder:
    def __init__(self, router, experts, comm, max_rows, hidden, device):
        self.router = router
        self.experts = experts
        self.comm = comm
        self.static_tokens = torch.zeros(max_rows, hidden, dtype=torch.bfloat16, device=device)
        self.static_counts = torch.zeros(
            len(comm.peer_windows), dtype=torch.int32, device=device
        )
        self.graph = None

    def prefill(self, tokens):
        order, counts = self.router(tokens)
        windows = self.comm.dispatch(tokens[order], counts)
        return self.experts(windows)

    def decode(self, tokens):
        if self.graph is None:
            self.graph = self.comm.make_graphed(self.static_tokens, self.static_counts)
        order, counts = self.router(tokens)
        self.static_tokens[: tokens.shape[0]].copy_(tokens[order])
        self.static_counts.copy_(counts)
        self.graph.replay()
        return self.experts(self.comm.peer_windows)


@torch.inference_mode()
def generate(decoder, prompt, embed, head, steps):
    x = decoder.prefill(embed(prompt))
    out = []
    token = head(x).argmax(-1)
    for _ in range(steps):
        out.append(token)
        token = head(decoder.decode(embed(token))).argmax(-1)
    return torch.stack(out).cpu()
