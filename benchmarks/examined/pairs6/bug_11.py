"""Activation offloading for sequence classification fine-tuning."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Moves large saved tensors to the CPU on a second stream and back on demand."""

    def __init__(self, min_bytes=1024):
        self.min_bytes = min_bytes
        self.s1 = torch.cuda.Stream()
        self.tracker = {}
        self.next_id = 0
        super().__init__(self.pack_tensor, self.unpack_tensor)

    @property
    def s0(self):
        return torch.cuda.current_stream()

    def pack_tensor(self, activation):
        size = activation.element_size() * activation.nelement()
        if size < self.min_bytes or not activation.is_cuda or isinstance(activation, nn.Parameter):
            return activation
        key = self.next_id
        self.next_id += 1
        self.s1.wait_stream(self.s0)
        if activation.storage_offset() != 0 or not activation.is_contiguous():
            activation = activation.clone(memory_format=torch.contiguous_format)
        with torch.cuda.stream(self.s1):
            cpu_tensor = torch.empty_like(activation, device="cpu", pin_memory=True)
            cpu_tensor.copy_(activation, non_blocking=True)
        activation.record_stream(self.s1)
        self.tracker[key] = cpu_tensor
        return key

    def unpack_tensor(self, key):
        if isinstance(key, torch.Tensor):
            return key
        with torch.cuda.stream(self.s1):
            gpu_tensor = self.tracker.pop(key).to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        gpu_tensor.record_stream(self.s0)
        return gpu_tensor


class CausalHead(nn.Module):
    def __init__(self, vocab=32000, dim=1024):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        hidden, _ = self.mix(self.embed(ids))
        hidden = hidden.contiguous()
        gated = hidden[:, 1:] * torch.sigmoid(hidden[:, :-1])
        logits = self.out(gated)
        return F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))


def main():
    model = CausalHead().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(100):
        ids = torch.randint(0, 32000, (8, 513), device="cuda")
        with OffloadActivations():
            loss = model(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())


if __name__ == "__main__":
    main()
