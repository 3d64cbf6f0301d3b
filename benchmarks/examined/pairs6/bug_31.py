"""Fine-grained offloading of layer inputs with bulk and inline reload."""
import torch
import torch.nn as nn
from torch.autograd import Function


class ChunkOffloadHandler:
    def __init__(self):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self._groups = []
        self._resident = {}

    def offload(self, tensor):
        backup = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            backup.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.d2h_stream)
        self._groups.append((backup, self.d2h_stream.record_event()))

    def reload(self, backup):
        return backup.to("cuda", non_blocking=True)

    def bulk_reload_group(self, index):
        if index < 0:
            return
        backup, offload_event = self._groups[index]
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(offload_event)
            tensor = self.reload(backup)
        self._resident[index] = (tensor, self.h2d_stream.record_event())

    def tensor_pop(self):
        index = len(self._groups) - 1
        backup, _ = self._groups.pop()
        if index in self._resident:
            tensor, reload_event = self._resident.pop(index)
            torch.cuda.current_stream().wait_event(reload_event)
            tensor.record_stream(torch.cuda.current_stream())
        else:
            tensor = self.reload(backup)
        self.bulk_reload_group(index - 1)
        return tensor


class OffloadedLayer(Function):
    @staticmethod
    def forward(ctx, hidden, layer, handler):
        ctx.layer, ctx.handler = layer, handler
        handler.offload(hidden)
        with torch.no_grad():
            return layer(hidden)

    @staticmethod
    def backward(ctx, grad_output):
        hidden = ctx.handler.tensor_pop().requires_grad_()
        with torch.enable_grad():
            output = ctx.layer(hidden)
        torch.autograd.backward(output, grad_output)
        return hidden.grad, None, None


def main(iterations=300):
    embed = nn.Embedding(32000, 1024).cuda()
    layers = [nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True).cuda() for _ in range(8)]
    params = [*embed.parameters(), *(p for layer in layers for p in layer.parameters())]
    optimizer = torch.optim.Adam(params, lr=1e-4)
    handler = ChunkOffloadHandler()
    for _ in range(iterations):
        hidden = embed(torch.randint(0, 32000, (8, 1024), device="cuda"))
        for layer in layers:
            hidden = OffloadedLayer.apply(hidden, layer, handler)
        hidden.float().var().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
