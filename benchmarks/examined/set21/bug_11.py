import threading
from dataclasses import dataclass
from queue import Queue
from typing import List, Optional

import torch
import torch.nn as nn


@dataclass
class ModelWorkerBatch:
    bid: int
    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor


class TpModelWorkerClient:
    """Runs the forward passes in a thread on its own stream."""

    def __init__(self, model: nn.Module, batch_size: int, vocab: int):
        self.model = model
        self.forward_stream = torch.cuda.Stream()
        self.future_token_ids = torch.zeros(batch_size, dtype=torch.long, device="cuda")
        self.input_queue: Queue = Queue()
        self.output_queue: Queue = Queue()
        torch.cuda.synchronize()
        self.thread = threading.Thread(target=self.forward_thread_func, daemon=True)
        self.thread.start()

    @torch.inference_mode()
    def forward_thread_func(self) -> None:
        with torch.cuda.stream(self.forward_stream):
            while True:
                item = self.input_queue.get()
                if item is None:
                    break
                batch, prepared = item
                self.forward_stream.wait_event(prepared)
                logits = self.model(self.future_token_ids, batch.seq_lens)
                next_token_ids = logits.argmax(dim=-1)
                self.future_token_ids[batch.req_pool_indices] = next_token_ids
                host = torch.empty(next_token_ids.shape, dtype=torch.long, pin_memory=True)
                host.copy_(next_token_ids, non_blocking=True)
                copy_event = torch.cuda.Event()
                copy_event.record(self.forward_stream)
                self.output_queue.put((copy_event, batch, host))

    def forward_batch_generation(self, batch: ModelWorkerBatch) -> None:
        prepared = torch.cuda.Event()
        prepared.record()
        self.input_queue.put((batch, prepared))

    def resolve_batch_result(self) -> List[int]:
        copy_event, _, host = self.output_queue.get()
        copy_event.synchronize()
        return host.tolist()


class ScheduleBatch:
    def __init__(self, prompt_lens: List[int]):
        self.seq_lens = torch.tensor(prompt_lens, dtype=torch.long, device="cuda")
        self.req_pool_indices = torch.arange(len(prompt_lens), device="cuda")
        self.bid = 0

    def prepare_for_decode(self) -> None:
        self.seq_lens.add_(1)
        self.bid += 1

    def get_model_worker_batch(self) -> ModelWorkerBatch:
        return ModelWorkerBatch(self.bid, self.seq_lens, self.req_pool_indices)


class DecodeModel(nn.Module):
    def __init__(self, vocab: int, hidden: int, depth: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(depth)])
        self.head = nn.Linear(hidden, vocab)

    def forward(self, ids, seq_lens):
        x = self.embed(ids)
        for layer in self.layers:
            x = torch.tanh(layer(x) + torch.sin(seq_lens.unsqueeze(-1).float() * 1e-3))
        return self.head(x)


def event_loop_overlap(steps: int = 128) -> List[List[int]]:
    model = DecodeModel(32000, 2048, 24).cuda().eval()
    worker = TpModelWorkerClient(model, 16, 32000)
    batch = ScheduleBatch([100 + i for i in range(16)])
    results, last = [], False
    for _ in range(steps):
        batch.prepare_for_decode()
        worker.forward_batch_generation(batch.get_model_worker_batch())
        if last:
            results.append(worker.resolve_batch_result())
        last = True
    results.append(worker.resolve_batch_result())
    worker.input_queue.put(None)
    return results
