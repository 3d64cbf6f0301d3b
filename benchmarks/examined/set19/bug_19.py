"""Batch scorer: ONNX Runtime runs on a given stream, post-processing is done in torch."""
import asyncio

import numpy as np
import onnxruntime as ort
import torch


class StreamedSession:
    def __init__(self, path, device):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.session = ort.InferenceSession(
            path,
            providers=[
                (
                    "CUDAExecutionProvider",
                    {
                        "device_id": device.index,
                        "user_compute_stream": str(self.stream.cuda_stream),
                        "do_copy_in_default_stream": True,
                    },
                )
            ],
        )
        self.run_options = ort.RunOptions()
        self.run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def bind(self, inputs, outputs):
        binding = self.session.io_binding()
        for name, t in inputs.items():
            binding.bind_input(name, "cuda", self.device.index, np.int64, tuple(t.shape), t.data_ptr())
        for name, t in outputs.items():
            binding.bind_output(name, "cuda", self.device.index, np.float32, tuple(t.shape), t.data_ptr())
        return binding

    def run(self, binding):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.session.run_with_iobinding(binding, self.run_options)


class RerankService:
    def __init__(self, path, max_batch, seq_len, hidden):
        self.device = torch.device("cuda", 0)
        self.session = StreamedSession(path, self.device)
        self.input_ids = torch.zeros(max_batch, seq_len, dtype=torch.int64, device=self.device)
        self.attention_mask = torch.zeros_like(self.input_ids)
        self.hidden = torch.empty(max_batch, seq_len, hidden, device=self.device)
        self.binding = self.session.bind(
            {"input_ids": self.input_ids, "attention_mask": self.attention_mask},
            {"last_hidden_state": self.hidden},
        )
        self.head = torch.nn.Linear(hidden, 1).to(self.device)

    def _pool(self):
        mask = self.attention_mask.unsqueeze(-1).float()
        return (self.hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)

    @torch.inference_mode()
    def score(self, ids, mask):
        n = ids.shape[0]
        self.input_ids.zero_()
        self.attention_mask.zero_()
        self.input_ids[:n].copy_(ids)
        self.attention_mask[:n].copy_(mask)
        self.session.run(self.binding)
        pooled = self._pool()
        return torch.sigmoid(self.head(pooled[:n])).squeeze(-1).cpu()


class Batcher:
    def __init__(self, service, max_batch):
        self.service = service
        self.max_batch = max_batch
        self.queue = asyncio.Queue()

    async def submit(self, ids, mask):
        future = asyncio.get_running_loop().create_future()
        await self.queue.put((ids, mask, future))
        return await future

    async def run(self):
        while True:
            items = [await self.queue.get()]
            while len(items) < self.max_batch and not self.queue.empty():
                items.append(self.queue.get_nowait())
            ids = torch.stack([i for i, _, _ in items])
            mask = torch.stack([m for _, m, _ in items])
            scores = self.service.score(ids, mask)
            for (_, _, future), value in zip(items, scores.tolist()):
                future.set_result(value)
