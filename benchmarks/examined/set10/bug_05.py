import torch


class LayerInputCheckpoints:
    """Pinned host storage for the inputs of all layers."""

    def __init__(self, n_layer, batch_size, seq_len, n_embd, dtype=torch.bfloat16):
        shape = (batch_size, seq_len, n_embd)
        self.slots = [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in range(n_layer + 1)]

    def set_checkpoint(self, layer_idx, buffers, stream):
        with torch.cuda.stream(stream):
            self.slots[layer_idx].copy_(buffers, non_blocking=True)
        buffers.record_stream(stream)

    def get_checkpoint(self, layer_idx, device):
        return self.slots[layer_idx].to(device, non_blocking=True)


class GradientAccumulator:
    def __init__(self, layers, head, checkpoints, chunk_size, device="cuda"):
        self.layers = layers
        self.head = head
        self.checkpoints = checkpoints
        self.chunk_size = chunk_size
        self.device = torch.device(device)
        self.device_to_host = torch.cuda.Stream(device=self.device)
        self._ready = [torch.cuda.Event() for _ in range(len(layers) + 1)]

    def _checkpoint(self, layer_idx, hidden):
        self.device_to_host.wait_event(self._ready[layer_idx])
        self.checkpoints.set_checkpoint(layer_idx, hidden, self.device_to_host)

    @torch.no_grad()
    def _forward(self, hidden):
        main = torch.cuda.current_stream(self.device)
        self._ready[0].record(main)
        self._checkpoint(0, hidden)
        for idx, layer in enumerate(self.layers):
            chunks = []
            for start in range(0, hidden.shape[1], self.chunk_size):
                chunks.append(layer(hidden[:, start : start + self.chunk_size]))
            self._ready[idx + 1].record(main)
            hidden = torch.cat(chunks, dim=1)
            self._checkpoint(idx + 1, hidden)
        return hidden

    def _backward(self, targets, scale):
        torch.cuda.synchronize(self.device)
        x = self.checkpoints.get_checkpoint(len(self.layers), self.device).requires_grad_(True)
        loss = self.head(x, targets) * scale
        loss.backward()
        grad = x.grad
        for idx in reversed(range(len(self.layers))):
            x = self.checkpoints.get_checkpoint(idx, self.device).requires_grad_(True)
            outputs = [
                self.layers[idx](x[:, s : s + self.chunk_size])
                for s in range(0, x.shape[1], self.chunk_size)
            ]
            torch.autograd.backward(torch.cat(outputs, dim=1), grad)
            grad = x.grad
        torch.cuda.synchronize(self.device)
        return loss.detach(), grad

    def run(self, hidden, targets, scale=1.0):
        self._forward(hidden.detach())
        return self._backward(targets, scale)
