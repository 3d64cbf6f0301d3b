from typing import Any, Dict

import torch
import torch.nn as nn


class LoraMLP(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.up = nn.Linear(hidden, inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)

    def forward(self, x, lora):
        h = self.up(x) + (x @ lora["up_a"]) @ lora["up_b"]
        return x + self.down(torch.relu(h))


class Model(nn.Module):
    def __init__(self, vocab, hidden, inter, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(LoraMLP(hidden, inter) for _ in range(depth))
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, input_ids, position_ids, lora_params):
        x = self.embed(input_ids) + torch.sin(position_ids.float())[:, None]
        for layer in self.layers:
            x = layer(x, lora_params)
        return self.head(x)


class DecodingCUDAGraphRunner:
    def __init__(self, batch_size, model, lora_params):
        self.batch_size = batch_size
        self.model = model
        self.input_ids = torch.zeros(batch_size, dtype=torch.long, device="cuda")
        self.position_ids = torch.zeros(batch_size, dtype=torch.long, device="cuda")
        self.lora_params = lora_params
        self._graph = None
        self._output = None

    def _forward(self):
        return self.model(self.input_ids, self.position_ids, self.lora_params)

    @torch.inference_mode()
    def capture(self, pool=None):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._output = self._forward()
        return self._graph.pool()

    @torch.inference_mode()
    def run(self, inputs: Dict[str, Any]):
        self.input_ids.copy_(inputs["input_ids"])
        self.position_ids.copy_(inputs["position_ids"])
        if "lora_params" in inputs:
            self.lora_params = inputs["lora_params"]
        self._graph.replay()
        return self._output.clone()


def load_adapter(hidden, inter, rank, seed):
    gen = torch.Generator("cuda").manual_seed(seed)
    return {
        "up_a": torch.randn(hidden, rank, device="cuda", generator=gen) * 0.02,
        "up_b": torch.randn(rank, inter, device="cuda", generator=gen) * 0.02,
    }


def main():
    hidden, inter, rank = 1024, 2048, 16
    model = Model(32000, hidden, inter, 4).cuda().eval()
    runner = DecodingCUDAGraphRunner(8, model, load_adapter(hidden, inter, rank, 0))
    runner.capture()
    produced = {}
    for uid in range(1, 5):
        adapter = load_adapter(hidden, inter, rank, uid)
        ids = torch.full((8,), uid, dtype=torch.long, device="cuda")
        tokens = []
        for pos in range(16):
            positions = torch.full((8,), pos, dtype=torch.long, device="cuda")
            logits = runner.run({"input_ids": ids, "position_ids": positions, "lora_params": adapter})
            ids = logits.argmax(-1)
            tokens.append(ids)
        produced[uid] = torch.stack(tokens).cpu()
    print({k: v[:, 0].tolist() for k, v in produced.items()})


if __name__ == "__main__":
    main()
