"""Encoder model behind llm.encode(): forward passes are captured for a ladder of batch sizes."""
import bisect

import torch


class EncoderCudaGraphRunner:
    def __init__(self, batch_sizes, max_len, device):
        self.batch_sizes = sorted(batch_sizes)
        self.max_len = max_len
        self.device = device
        self.pool = None
        self.graphs = {}
        self.static_inputs = {}
        self.graph_outputs = {}

    def key_for(self, batch_size):
        i = bisect.bisect_left(self.batch_sizes, batch_size)
        return self.batch_sizes[i] if i < len(self.batch_sizes) else None

    def needs_capture(self, key):
        return key not in self.graphs

    def _allocate(self, key):
        return {
            "input_ids": torch.zeros(key, self.max_len, dtype=torch.int64, device=self.device),
            "attention_mask": torch.ones(key, self.max_len, dtype=torch.bool, device=self.device),
        }

    def capture(self, key, forward_fn):
        inputs = self.static_inputs[key] = self._allocate(key)
        warmup = torch.cuda.Stream(device=self.device)
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(2):
                forward_fn(inputs)
        torch.cuda.current_stream().wait_stream(warmup)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.graph_outputs[key] = forward_fn(inputs)
        self.pool = graph.pool()
        self.graphs[key] = graph

    def replay(self, key, inputs):
        static = self.static_inputs[key]
        rows = inputs["input_ids"].shape[0]
        for name, buf in static.items():
            buf[:rows].copy_(inputs[name], non_blocking=True)
        self.graphs[key].replay()
        return self.graph_outputs[key]


class EncoderEngine:
    def __init__(self, model, runner):
        self.model = model
        self.runner = runner

    def _forward(self, inputs):
        return self.model(inputs["input_ids"], inputs["attention_mask"])

    @torch.inference_mode()
    def forward(self, inputs):
        batch_size = inputs["input_ids"].shape[0]
        key = self.runner.key_for(batch_size)
        if key is None:
            return self._forward({k: v.cuda() for k, v in inputs.items()})
        if self.runner.needs_capture(key):
            self.runner.capture(key, self._forward)
        graph_outputs = self.runner.replay(key, inputs)
        outputs = dict(graph_outputs)
        outputs["logits"] = graph_outputs["logits"][:batch_size].clone()
        outputs["pooled"] = graph_outputs["pooled"][:batch_size]
        return outputs


class Classifier(torch.nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.mix = torch.nn.Linear(dim, dim)
        self.head = torch.nn.Linear(dim, classes)

    def forward(self, ids, mask):
        x = torch.tanh(self.mix(self.embed(ids))) * mask.unsqueeze(-1)
        pooled = x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return {"logits": self.head(pooled), "pooled": pooled}


def encode(engine, requests, max_batch):
    """Returns labels and unit-length embeddings for all requests."""
    results = []
    for start in range(0, len(requests), max_batch):
        ids = torch.stack(requests[start : start + max_batch])
        results.append(engine.forward({"input_ids": ids, "attention_mask": ids != 0}))
    labels = torch.cat([r["logits"] for r in results]).argmax(-1)
    embeddings = torch.nn.functional.normalize(torch.cat([r["pooled"] for r in results]), dim=-1)
    return labels.tolist(), embeddings.cpu()


if __name__ == "__main__":
    runner = EncoderCudaGraphRunner([1, 8, 32], 256, torch.device("cuda"))
    engine = EncoderEngine(Classifier(32000, 768, 5).cuda().eval(), runner)
    labels, emb = encode(engine, [torch.randint(0, 32000, (256,)) for _ in range(150)], 32)
    print(len(labels), emb.shape)
