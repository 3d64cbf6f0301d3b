import queue
import threading
from dataclasses import dataclass, field

import torch


@dataclass
class SamplerOutput:
    sampled_token_ids: torch.Tensor
    num_sampled: torch.Tensor


class AsyncOutput:
    """Sampled tokens on their way to the host."""

    def __init__(
        self,
        output: SamplerOutput,
        main_stream: torch.cuda.Stream,
        copy_stream: torch.cuda.Stream,
    ):
        self.output = output
        self.copy_event = torch.cuda.Event()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main_stream)
            self.token_ids = output.sampled_token_ids.to("cpu", non_blocking=True)
            self.num_sampled = output.num_sampled.to("cpu", non_blocking=True)
            self.copy_event.record(copy_stream)

    def get_output(self) -> list[list[int]]:
        self.copy_event.synchronize()
        self.output = None
        counts = self.num_sampled.tolist()
        return [ids[:n] for ids, n in zip(self.token_ids.tolist(), counts)]


@dataclass
class OutputThread:
    sink: object
    inbox: "queue.Queue" = field(default_factory=queue.Queue)

    def __post_init__(self):
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self) -> None:
        while True:
            item = self.inbox.get()
            if item is None:
                return
            self.sink(item.get_output())

    def close(self) -> None:
        self.inbox.put(None)
        self.thread.join()


class GPUModelRunner:
    def __init__(self, model, device: torch.device, sink):
        self.model = model
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.output_thread = OutputThread(sink)

    @torch.inference_mode()
    def execute_model(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.model(tokens)
        sampled = logits.argmax(dim=-1, keepdim=True)
        counts = torch.ones(sampled.size(0), dtype=torch.int32, device=self.device)
        main_stream = torch.cuda.current_stream(self.device)
        async_output = AsyncOutput(SamplerOutput(sampled, counts), main_stream, self.copy_stream)
        self.output_thread.inbox.put(async_output)
        return sampled

    def generate(self, tokens: torch.Tensor, steps: int) -> None:
        for _ in range(steps):
            tokens = self.execute_model(tokens)
        self.output_thread.close()
