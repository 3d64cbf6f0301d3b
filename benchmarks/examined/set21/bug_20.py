import threading
from queue import Queue
from typing import Callable, Dict, List, Tuple

import torch
import torch.nn as nn


class Mediator:
    """Runs one user intervention in a thread and exchanges values with the model."""

    def __init__(self, intervention: Callable[["Mediator"], None]):
        self.intervention = intervention
        self.to_model: Queue = Queue()
        self.to_worker: Queue = Queue()
        self.saved: Dict[str, torch.Tensor] = {}
        self.thread: threading.Thread = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with torch.inference_mode():
            self.intervention(self)
        self.to_model.put(None)

    def request(self, name: str) -> torch.Tensor:
        self.to_model.put(name)
        return self.to_worker.get()

    def save(self, name: str, value: torch.Tensor) -> None:
        self.saved[name] = value.clone()


class Interleaver:
    """Delivers module outputs to the mediators that asked for them."""

    def __init__(self, mediators: List[Mediator]):
        self.mediators = mediators
        self.wanted: Dict[int, str] = {}

    def start(self) -> None:
        for i, mediator in enumerate(self.mediators):
            mediator.start()
            self._advance(i)

    def _advance(self, i: int) -> None:
        self.wanted[i] = self.mediators[i].to_model.get()

    def handle(self, name: str, value: torch.Tensor) -> torch.Tensor:
        for i, mediator in enumerate(self.mediators):
            if self.wanted.get(i) == name:
                mediator.to_worker.put(value)
                self._advance(i)
        return value


class Envoy(nn.Module):
    def __init__(self, hidden: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(depth)])
        self.interleaver: Interleaver = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            x = self.interleaver.handle(f"layers.{i}", x)
        return x


class Executor:
    def __init__(self, hidden: int = 4096, depth: int = 16):
        self.model = Envoy(hidden, depth).cuda().eval()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.inference_mode()
    def execute(self, inputs: torch.Tensor, mediators: List[Mediator]) -> Tuple[torch.Tensor, List[Dict[str, torch.Tensor]]]:
        torch.cuda.set_stream(self.stream)
        self.model.interleaver = Interleaver(mediators)
        hidden = inputs.pin_memory().cuda(non_blocking=True)
        self.model.interleaver.start()
        output = self.model(hidden)
        for mediator in mediators:
            mediator.thread.join()
        result = output.cpu()
        return result, [m.saved for m in mediators]


def ablate_heads(mediator: Mediator) -> None:
    activations = mediator.request("layers.3")
    mediator.save("before", activations)
    activations[:, 512:1024] = 0.0
    later = mediator.request("layers.9")
    mediator.save("after", later)


def main() -> Tuple[float, float]:
    executor = Executor()
    output, saved = executor.execute(torch.randn(1024, 4096), [Mediator(ablate_heads)])
    torch.cuda.synchronize()
    return float(output.norm()), float(saved[0]["after"].norm())
