import torch


class LoraBatch:
    """Adapters of the requests in the running batch."""

    def __init__(self, a, b, token_lora):
        self.a = a                      # (adapters, experts, rank, hidden)
        self.b = b                      # (adapters, experts, 2 * ffn, rank)
        self.token_lora = token_lora    # adapter of each token


class VirtualExpertRouting:
    """Tokens sorted by (adapter, expert)."""

    def __init__(self, topk_ids, token_lora, experts):
        virtual = token_lora.unsqueeze(1) * experts + topk_ids
        flat = virtual.flatten()
        self.order = torch.argsort(flat, stable=True)
        self.virtual_ids = flat[self.order]
        self.token_ids = self.order // topk_ids.shape[1]


def gate_up_lora(x, routing, lora):
    """Low-rank delta of the gate/up projection, in route order."""
    a = lora.a.flatten(0, 1)[routing.virtual_ids]
    b = lora.b.flatten(0, 1)[routing.virtual_ids]
    shrunk = torch.bmm(a, x[routing.token_ids].unsqueeze(2))
    expanded = torch.bmm(b, shrunk).squeeze(2)
    delta = torch.empty_like(expanded)
    delta[routing.order] = expanded
    return delta


class MoELoraLayer(torch.nn.Module):
    def __init__(self, experts, top_k, hidden, ffn, lora_stream):
        super().__init__()
        self.experts = experts
        self.top_k = top_k
        self.lora_stream = lora_stream
        self.gate = torch.nn.Linear(hidden, experts, bias=False, device="cuda", dtype=torch.bfloat16)
        self.w13 = torch.nn.Parameter(torch.randn(experts, 2 * ffn, hidden, device="cuda", dtype=torch.bfloat16))
        self.w2 = torch.nn.Parameter(torch.randn(experts, hidden, ffn, device="cuda", dtype=torch.bfloat16))

    def _start_lora(self, x, topk_ids, lora):
        routing = VirtualExpertRouting(topk_ids, lora.token_lora, self.experts)
        self.lora_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lora_stream):
            delta = gate_up_lora(x, routing, lora)
            done = self.lora_stream.record_event()
        return delta, done

    def forward(self, x, lora):
        scores = torch.softmax(self.gate(x).float(), dim=-1)
        topk_weights, topk_ids = scores.topk(self.top_k, dim=-1)
        delta, done = self._start_lora(x, topk_ids, lora)
        flat_ids = topk_ids.flatten()
        order = torch.argsort(flat_ids, stable=True)
        rows = x[order // self.top_k].unsqueeze(2)
        base = torch.bmm(self.w13[flat_ids[order]], rows).squeeze(2)
        gate_up = torch.empty_like(base)
        gate_up[order] = base
        current = torch.cuda.current_stream()
        current.wait_event(done)
        delta.record_stream(current)
        gate, up = (gate_up + delta).chunk(2, dim=-1)
        act = torch.nn.functional.silu(gate) * up
        out = torch.bmm(self.w2[flat_ids], act.unsqueeze(2)).squeeze(2)
        out = out.view(-1, self.top_k, x.shape[1]) * topk_weights.unsqueeze(2)
        return x + out.sum(dim=1).to(x.dtype)


class LoraDecoder:
    def __init__(self, layers, experts, top_k, hidden, ffn):
        stream = torch.cuda.Stream()
        self.layers = [MoELoraLayer(experts, top_k, hidden, ffn, stream) for _ in range(layers)]

    @torch.no_grad()
    def decode(self, x, lora):
        for layer in self.layers:
            x = layer(x, lora)
        return x


def serve(decoder, requests, adapters_a, adapters_b):
    for hidden_states, token_lora in requests:
        lora = LoraBatch(adapters_a, adapters_b, token_lora)
        yield decoder.decode(hidden_states, lora)
