"""Dynamic inference context: request bookkeeping on the host, mirrored to the device per step."""
import torch


class GPUView:
    """Device snapshot of the bookkeeping fields, one flat buffer."""

    def __init__(self, flat, layout):
        self.flat = flat
        for name, (start, stop) in layout.items():
            setattr(self, name, flat[start:stop])


class DynamicContext:
    FIELDS = ("token_pos", "kv_length", "block_id", "request_row")

    def __init__(self, max_requests, block_size, device):
        self.max_requests = max_requests
        self.block_size = block_size
        layout = {
            name: (i * max_requests, (i + 1) * max_requests)
            for i, name in enumerate(self.FIELDS)
        }
        total = max_requests * len(self.FIELDS)
        self._cpu_buf = torch.zeros(total, dtype=torch.int64, pin_memory=True)
        self._gpu_buf = torch.zeros(total, dtype=torch.int64, device=device)
        self.cpu = GPUView(self._cpu_buf, layout)
        self.gpu = GPUView(self._gpu_buf, layout)
        self.active = 0
        self._next_block = 1

    def add_request(self, prompt_len):
        row = self.active
        self.cpu.token_pos[row] = prompt_len - 1
        self.cpu.kv_length[row] = prompt_len
        self.cpu.request_row[row] = row
        self.cpu.block_id[row] = self._alloc_block()
        self.active += 1
        return row

    def _alloc_block(self):
        block, self._next_block = self._next_block, self._next_block + 1
        return block

    def update_requests(self):
        """Advance every active request by one token."""
        n = self.active
        self.cpu.token_pos[:n] += 1
        self.cpu.kv_length[:n] += 1
        crossed = self.cpu.token_pos[:n] % self.block_size == 0
        for row in torch.nonzero(crossed).flatten().tolist():
            self.cpu.block_id[row] = self._alloc_block()

    def transfer_to_gpu(self):
        self._gpu_buf.copy_(self._cpu_buf, non_blocking=True)


class Decoder(torch.nn.Module):
    def __init__(self, vocab=32000, dim=2048, blocks=4096, block_size=16, layers=8):
        super().__init__()
        self.block_size = block_size
        self.embed = torch.nn.Embedding(vocab, dim)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(dim, dim) for _ in range(layers))
        self.head = torch.nn.Linear(dim, vocab, bias=False)
        self.register_buffer("cache", torch.zeros(blocks * block_size, dim))

    def forward(self, tokens, view, n):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        slot = view.block_id[:n] * self.block_size + view.token_pos[:n] % self.block_size
        self.cache.index_copy_(0, slot, x)
        scale = view.kv_length[:n].to(x.dtype).rsqrt().unsqueeze(-1)
        return self.head(x * scale)


class Engine:
    def __init__(self, model, context):
        self.model = model
        self.context = context
        self.tokens = torch.ones(context.max_requests, dtype=torch.int64, device="cuda")

    @torch.inference_mode()
    def step(self):
        ctx = self.context
        ctx.update_requests()
        ctx.transfer_to_gpu()
        n = ctx.active
        logits = self.model(self.tokens[:n], ctx.gpu, n)
        self.tokens[:n] = logits.argmax(dim=-1)

    def generate(self, prompt_lens, max_new_tokens):
        for length in prompt_lens:
            self.context.add_request(length)
        history = torch.empty(
            max_new_tokens, self.context.active, dtype=torch.int64, device="cuda"
        )
        for i in range(max_new_tokens):
            self.step()
            history[i] = self.tokens[: self.context.active]
        return history.cpu()


if __name__ == "__main__":
    engine = Engine(Decoder().cuda().eval(), DynamicContext(64, 16, "cuda"))
    print(engine.generate([12, 40, 7, 31], 128).shape)
