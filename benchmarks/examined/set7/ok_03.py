from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Optional

import torch
import torch.distributed as dist


@dataclass
class JaggedFeatures:
    values: torch.Tensor
    offsets: torch.Tensor

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        self.values.record_stream(stream)
        self.offsets.record_stream(stream)


class InputDistAwaitable:
    def __init__(self, work, out: torch.Tensor, lengths: torch.Tensor, recat: torch.Tensor):
        self._work = work
        self._out = out
        self._lengths = lengths
        self._recat = recat

    def wait(self) -> JaggedFeatures:
        self._work.wait()
        lengths = self._lengths.index_select(0, self._recat)
        offsets = torch.cumsum(lengths, 0)
        values = self._out.index_select(0, self._recat)
        return JaggedFeatures(values, offsets)


@dataclass
class PipelineContext:
    index: int = 0
    input_dist_requests: Dict[str, InputDistAwaitable] = field(default_factory=dict)
    embedding_outputs: Dict[str, torch.Tensor] = field(default_factory=dict)


def _start_embedding_lookup(
    module,
    name: str,
    context: PipelineContext,
    source_stream: Optional[torch.cuda.Stream],
    target_stream: Optional[torch.cuda.Stream],
    stream_context: Callable[..., Any],
) -> None:
    current = torch.cuda.current_stream()
    with stream_context(source_stream):
        kjt = context.input_dist_requests.pop(name).wait()
        ready = source_stream.record_event() if source_stream is not None else None
    if ready is not None:
        current.wait_event(ready)
    kjt.record_stream(current)
    if target_stream is not None:
        kjt.record_stream(target_stream)
    output = module.compute_and_output_dist(kjt)
    output.record_stream(target_stream)
    context.embedding_outputs[name] = output


class TrainPipelineSemiSync:
    def __init__(self, model, sharded: Dict[str, Any], optimizer, device: torch.device,
                 dataloader_iter):
        self._model = model
        self._sharded = sharded
        self._optimizer = optimizer
        self._device = device
        self._iter = dataloader_iter
        self._default_stream = torch.cuda.current_stream(device)
        self._data_dist_stream = torch.cuda.Stream(device, priority=-1)
        self._emb_lookup_stream = torch.cuda.Stream(device)
        self.contexts: Deque[PipelineContext] = deque()
        self.batches: Deque[Any] = deque()

    def _start_sparse_data_dist(self, batch, context: PipelineContext) -> None:
        with torch.cuda.stream(self._data_dist_stream):
            batch = batch.to(self._device, non_blocking=True)
            for name, module in self._sharded.items():
                out, lengths, recat = module.input_dist_buffers(batch)
                work = dist.all_to_all_single(out, batch.values(name), async_op=True)
                context.input_dist_requests[name] = InputDistAwaitable(work, out, lengths, recat)
        self.batches.append(batch)

    def start_embedding_lookup(self, context: PipelineContext) -> None:
        self._emb_lookup_stream.wait_stream(self._default_stream)
        with torch.cuda.stream(self._emb_lookup_stream):
            for name, module in self._sharded.items():
                _start_embedding_lookup(
                    module,
                    name,
                    context,
                    source_stream=self._data_dist_stream,
                    target_stream=self._default_stream,
                    stream_context=torch.cuda.stream,
                )

    def progress(self) -> torch.Tensor:
        context = PipelineContext(index=len(self.contexts))
        self._start_sparse_data_dist(next(self._iter), context)
        self.start_embedding_lookup(context)
        self._default_stream.wait_stream(self._emb_lookup_stream)
        self._default_stream.wait_stream(self._data_dist_stream)
        batch = self.batches.popleft()
        batch.record_stream(self._default_stream)
        self._optimizer.zero_grad()
        loss = self._model(batch, context.embedding_outputs)
        loss.sum().backward()
        self._optimizer.step()
        return loss
