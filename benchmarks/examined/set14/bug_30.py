from typing import Callable, List, Union

import torch


def prepare_inputs(inputs, device):
    static = []
    for tensor in inputs:
        tensor = tensor.to(device, non_blocking=True)
        static.append(tensor.contiguous().clone())
    return static


class CudaGraphWrapper:
    """Captures a callable on first use for each input signature."""

    def __init__(self, fn: Callable, device="cuda", warmup=2):
        self.fn = fn
        self.device = torch.device(device)
        self.warmup = warmup
        self.pool = torch.cuda.graph_pool_handle()
        self.graph = None
        self.static_inputs: List[torch.Tensor] = []
        self.static_outputs: Union[torch.Tensor, tuple, None] = None

    def _capture(self, inputs):
        self.static_inputs = prepare_inputs(inputs, self.device)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.warmup):
                self.fn(*self.static_inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=self.pool):
            self.static_outputs = self.fn(*self.static_inputs)

    def __call__(self, *inputs):
        if self.graph is None:
            self._capture(inputs)
        else:
            self.static_inputs = prepare_inputs(inputs, self.device)
        self.graph.replay()
        return self.static_outputs


class OptimizedModel(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.eval()
        self.wrappers = {}

    @torch.inference_mode()
    def forward(self, input_ids, attention_mask):
        key = tuple(input_ids.shape)
        if key not in self.wrappers:
            self.wrappers[key] = CudaGraphWrapper(self._run)
        return self.wrappers[key](input_ids, attention_mask).clone()

    def _run(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def embed(model, tokenizer, texts, length=128, batch=16):
    optimized = OptimizedModel(model.cuda())
    vectors = []
    for start in range(0, len(texts), batch):
        enc = tokenizer(
            texts[start : start + batch], padding="max_length", truncation=True,
            max_length=length, return_tensors="pt",
        )
        hidden = optimized(enc["input_ids"], enc["attention_mask"])
        vectors.append(hidden.mean(dim=1).cpu())
    return torch.cat(vectors)
