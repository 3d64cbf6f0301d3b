"""MoE expert offload: missing experts of each layer are copied into alternating device buffers."""
import torch
import torch.nn.functional as F


class HostExperts:
    def __init__(self, num_experts, dim, hidden, dtype=torch.bfloat16):
        self.w13 = torch.randn(num_experts, 2 * hidden, dim, dtype=dtype).pin_memory()
        self.w2 = torch.randn(num_experts, dim, hidden, dtype=dtype).pin_memory()


class TempLayer:
    def __init__(self, slots, dim, hidden, device, dtype=torch.bfloat16):
        self.w13 = torch.zeros(slots, 2 * hidden, dim, dtype=dtype, device=device)
        self.w2 = torch.zeros(slots, dim, hidden, dtype=dtype, device=device)


class ExpertOffloadManager:
    NUM_BUFFERS = 2

    def __init__(self, layers, slots, dim, hidden, device):
        self.layers = layers
        self.slots = slots
        self.device = device
        self.update_stream = torch.cuda.Stream(device)
        self.temp = [TempLayer(slots, dim, hidden, device) for _ in range(self.NUM_BUFFERS)]
        self.copy_event = [torch.cuda.Event() for _ in range(self.NUM_BUFFERS)]
        torch.cuda.synchronize(device)

    def plan(self, layer_idx, hot):
        return hot[layer_idx][: self.slots]

    def update_expert_cache(self, layer_idx, experts):
        buffer_idx = layer_idx % self.NUM_BUFFERS
        temp, host = self.temp[buffer_idx], self.layers[layer_idx]
        with torch.cuda.stream(self.update_stream):
            for slot, e in enumerate(experts):
                temp.w13[slot].copy_(host.w13[e], non_blocking=True)
                temp.w2[slot].copy_(host.w2[e], non_blocking=True)
            self.copy_event[buffer_idx].record(self.update_stream)
        return buffer_idx

    def forward_layer(self, layer_idx, x, experts):
        buffer_idx = self.update_expert_cache(layer_idx, experts)
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.copy_event[buffer_idx])
        temp = self.temp[buffer_idx]
        out = torch.zeros_like(x)
        for slot in range(len(experts)):
            gate, up = F.linear(x, temp.w13[slot]).chunk(2, dim=-1)
            out += F.linear(F.silu(gate) * up, temp.w2[slot])
        return x + out / len(experts)


@torch.inference_mode()
def prefill(manager, x, hot):
    for layer_idx in range(len(manager.layers)):
        experts = manager.plan(layer_idx, hot)
        x = manager.forward_layer(layer_idx, x, experts)
    return x


def run(prompts, hot, depth=24, dim=2048, hidden=1024, device="cuda:0"):
    device = torch.device(device)
    layers = [HostExperts(64, dim, hidden) for _ in range(depth)]
    manager = ExpertOffloadManager(layers, 16, dim, hidden, device)
    results = []
    for prompt in prompts:
        hidden_states = prefill(manager, prompt.to(device, torch.bfloat16), hot)
        results.append(hidden_states[-1].float().cpu())
    return torch.stack(results)
