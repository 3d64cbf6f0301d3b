import torch


class OffloadBuffers:
    """Host copies of the checkpointed activations and two device buffers to reload them."""

    def __init__(self, layers, numel, dtype):
        self.host = [torch.empty(numel, dtype=dtype, pin_memory=True) for _ in range(layers)]
        self.device = [torch.empty(numel, dtype=dtype, device="cuda") for _ in range(2)]
        self.free_events = [torch.cuda.Event() for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.index = 0

    def next_index(self):
        i = self.index
        self.index += 1
        return i

    def reset(self):
        self.index = 0


class OffloadedCheckpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, buffers, hidden_states):
        main = torch.cuda.current_stream()
        index = buffers.next_index()
        hidden = hidden_states.detach().contiguous()
        host = buffers.host[index][: hidden.numel()].view_as(hidden)
        buffers.stream.wait_stream(main)
        with torch.cuda.stream(buffers.stream):
            host.copy_(hidden, non_blocking=True)
        hidden.record_stream(buffers.stream)
        with torch.no_grad():
            output = block(hidden)
        ctx.block = block
        ctx.buffers = buffers
        ctx.index = index
        ctx.shape = hidden.shape
        return output

    @staticmethod
    def backward(ctx, grad_output):
        main = torch.cuda.current_stream()
        buffers, index = ctx.buffers, ctx.index
        side = index % 2
        numel = ctx.shape.numel()
        hidden = buffers.device[side][:numel].view(ctx.shape)
        with torch.cuda.stream(buffers.stream):
            buffers.stream.wait_event(buffers.free_events[side])
            hidden.copy_(buffers.host[index][:numel].view(ctx.shape), non_blocking=True)
        main.wait_stream(buffers.stream)
        hidden = hidden.detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.block(hidden)
        torch.autograd.backward(output, grad_output)
        buffers.free_events[side].record(main)
        return None, None, hidden.grad


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.norm = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, vocab, hidden, layers, max_tokens):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, hidden)
        self.blocks = torch.nn.ModuleList([Block(hidden) for _ in range(layers)])
        self.head = torch.nn.Linear(hidden, vocab, bias=False)
        self.cuda().to(torch.bfloat16)
        self.buffers_ = OffloadBuffers(layers, max_tokens * hidden, torch.bfloat16)

    def forward(self, ids):
        self.buffers_.reset()
        x = self.embed(ids)
        for block in self.blocks:
            x = OffloadedCheckpoint.apply(block, self.buffers_, x)
        return self.head(x)


def train(model, loader, optimizer):
    for ids, labels in loader:
        logits = model(ids.cuda())
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.cuda().flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
