import torch


class AttnOffloadManager:
    """Keeps the attention outputs of recomputed layers in host memory."""

    def __init__(self, num_layers):
        self.num_layers = num_layers
        self.fa_output_mapping = {}
        self.fa_stream = torch.cuda.Stream()
        self.d2h_final_event = torch.cuda.Event()
        self.h2d_final_event = torch.cuda.Event()
        self.tensor_id_to_tensor_bufs = {}

    def get_tensor_buf(self, tensor, layer_id, tensor_id):
        bufs = self.tensor_id_to_tensor_bufs.setdefault(layer_id % 2, {})
        buf = bufs.get(tensor_id)
        if buf is None or buf.size() != tensor.size() or buf.dtype != tensor.dtype:
            buf = torch.empty_like(tensor)
            buf.record_stream(self.fa_stream)
            bufs[tensor_id] = buf
        return buf

    def insert_fa_output_with_layer(self, layer_idx, output):
        assert layer_idx not in self.fa_output_mapping
        tensors = []
        for tensor_id, tensor in enumerate(output):
            tensor_buf = self.get_tensor_buf(tensor, layer_idx, tensor_id)
            tensor_buf.copy_(tensor)
            tensors.append(tensor_buf)
        self.fa_output_mapping[layer_idx] = tensors

    def offload_fa_output_with_layer(self, layer_idx):
        self.fa_stream.wait_stream(torch.cuda.current_stream())
        self.fa_stream.wait_event(self.d2h_final_event)
        with torch.cuda.stream(self.fa_stream):
            gpu_tensors = self.fa_output_mapping.pop(layer_idx)
            cpu_tensors = []
            for tensor in gpu_tensors:
                backup = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
                backup.copy_(tensor, non_blocking=True)
                cpu_tensors.append(backup)
            self.fa_output_mapping[layer_idx] = cpu_tensors
        self.fa_stream.record_event(self.d2h_final_event)

    def preload_fa_output_with_layer(self, layer_idx):
        self.fa_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.fa_stream):
            cpu_tensors = self.fa_output_mapping.pop(layer_idx)
            self.fa_output_mapping[layer_idx] = [
                t.to(device="cuda", non_blocking=True) for t in cpu_tensors
            ]
        self.fa_stream.record_event(self.h2d_final_event)

    def get_fa_output_with_layer(self, layer_idx):
        current = torch.cuda.current_stream()
        current.wait_event(self.h2d_final_event)
        tensors = self.fa_output_mapping.pop(layer_idx)
        for t in tensors:
            t.record_stream(current)
        return tensors


class RecomputedLayer(torch.nn.Module):
    def __init__(self, index, hidden, heads, manager):
        super().__init__()
        self.index = index
        self.heads = heads
        self.manager = manager
        self.qkv = torch.nn.Linear(hidden, 3 * hidden, device="cuda", dtype=torch.bfloat16)
        self.proj = torch.nn.Linear(hidden, hidden, device="cuda", dtype=torch.bfloat16)

    def attention(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(b, s, h)

    @torch.no_grad()
    def forward(self, x):
        out = self.attention(x)
        self.manager.insert_fa_output_with_layer(self.index, (out, x))
        self.manager.offload_fa_output_with_layer(self.index)
        return x + self.proj(out)

    @torch.no_grad()
    def backward_proj(self, grad):
        out, x = self.manager.get_fa_output_with_layer(self.index)
        if self.index > 0:
            self.manager.preload_fa_output_with_layer(self.index - 1)
        self.proj.weight.grad = grad.flatten(0, 1).T @ out.flatten(0, 1)
        self.proj.bias.grad = grad.flatten(0, 1).sum(0)
        return grad + grad @ self.proj.weight, x


def forward_backward(layers, manager, x, grad):
    for layer in layers:
        x = layer(x)
    manager.preload_fa_output_with_layer(len(layers) - 1)
    for layer in reversed(layers):
        grad, _ = layer.backward_proj(grad)
    return x, grad
