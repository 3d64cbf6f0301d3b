import torch
import torch.nn as nn


class LayerInputCheckpoints:
    def __init__(self, num_layers, shape, dtype=torch.bfloat16):
        self.host = [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in range(num_layers)]
        self.ready = [torch.cuda.Event() for _ in range(num_layers)]
        self.stored = [torch.cuda.Event() for _ in range(num_layers)]
        self.device_to_host = torch.cuda.Stream()

    def mark(self, idx):
        self.ready[idx].record(torch.cuda.current_stream())

    def store(self, idx, x):
        with torch.cuda.stream(self.device_to_host):
            self.device_to_host.wait_event(self.ready[idx])
            self.host[idx].copy_(x, non_blocking=True)
            self.stored[idx].record(self.device_to_host)
        x.record_stream(self.device_to_host)

    def load(self, idx, device):
        self.stored[idx].synchronize()
        return self.host[idx].to(device)


class LongContextModel(nn.Module):
    def __init__(self, embed, layers, head, chunk_size):
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.head = head
        self.chunk_size = chunk_size

    @torch.no_grad()
    def forward_and_checkpoint(self, tokens, checkpoints):
        x = self.embed(tokens)
        for idx, layer in enumerate(self.layers):
            checkpoints.mark(idx)
            x = torch.cat([layer(c) for c in x.split(self.chunk_size, dim=1)], dim=1)
            checkpoints.store(idx, x)
        return x

    def backward_layers(self, checkpoints, head_grad):
        grad = head_grad
        for idx in range(len(self.layers) - 1, 0, -1):
            x = checkpoints.load(idx - 1, grad.device).requires_grad_()
            out = torch.cat([self.layers[idx](c) for c in x.split(self.chunk_size, dim=1)], dim=1)
            out.backward(grad)
            grad = x.grad
        return grad


def train_batch(model, checkpoints, tokens, targets, optimizer):
    hidden = model.forward_and_checkpoint(tokens, checkpoints).requires_grad_()
    loss = nn.functional.cross_entropy(model.head(hidden).flatten(0, 1).float(), targets.flatten())
    loss.backward()
    model.backward_layers(checkpoints, hidden.grad)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()
