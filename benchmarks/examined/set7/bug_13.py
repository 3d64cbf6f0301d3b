import queue
import threading
from typing import Dict, Optional

import torch


class ExpertCache:
    """Keeps host copies of all experts and a few device slots."""

    def __init__(self, host_experts: Dict[int, Dict[str, torch.Tensor]], device: torch.device):
        self.host_experts = {
            k: {n: t.pin_memory() for n, t in e.items()} for k, e in host_experts.items()
        }
        self.device = device

    def load(self, expert_id: int) -> Dict[str, torch.Tensor]:
        return {
            n: t.to(self.device, non_blocking=True)
            for n, t in self.host_experts[expert_id].items()
        }


class ExpertTask:
    __slots__ = ("expert_id", "hidden", "token_idx", "weights", "input_ready")

    def __init__(self, expert_id, hidden, token_idx, weights, input_ready):
        self.expert_id = expert_id
        self.hidden = hidden
        self.token_idx = token_idx
        self.weights = weights
        self.input_ready = input_ready


class ExpertDispatcher:
    def __init__(self, cache: ExpertCache, device: torch.device):
        self.cache = cache
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.tasks: "queue.Queue[Optional[ExpertTask]]" = queue.Queue()
        self.pending = 0
        self.cond = threading.Condition()
        self.alive = []
        self.final_hidden_states: Optional[torch.Tensor] = None
        self.thread = threading.Thread(target=self._loop, name="expert-exec", daemon=True)
        self.thread.start()

    def set_inputs(self, hidden: torch.Tensor) -> None:
        self.final_hidden_states = torch.zeros_like(hidden)

    def dispatch(self, expert_id, hidden, token_idx, weights) -> None:
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        with self.cond:
            self.pending += 1
        self.tasks.put(ExpertTask(expert_id, hidden, token_idx, weights, ready))

    def _loop(self) -> None:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while True:
                task = self.tasks.get()
                if task is None:
                    return
                self.stream.wait_event(task.input_ready)
                w = self.cache.load(task.expert_id)
                self._output_func(task, w)
                self.alive.append(task)
                with self.cond:
                    self.pending -= 1
                    self.cond.notify_all()

    @torch.no_grad()
    def _output_func(self, task: ExpertTask, w: Dict[str, torch.Tensor]) -> None:
        x = task.hidden.index_select(0, task.token_idx)
        h = torch.nn.functional.silu(x @ w["gate"].t()) * (x @ w["up"].t())
        y = (h @ w["down"].t()) * task.weights[:, None]
        self.final_hidden_states.index_add_(0, task.token_idx, y)

    def wait(self) -> torch.Tensor:
        with self.cond:
            self.cond.wait_for(lambda: self.pending == 0)
        return self.final_hidden_states


class OffloadedMoE(torch.nn.Module):
    def __init__(self, gate: torch.nn.Linear, dispatcher: ExpertDispatcher, norm: torch.nn.Module):
        super().__init__()
        self.gate = gate
        self.dispatcher = dispatcher
        self.norm = norm

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        probs = self.gate(hidden).softmax(dim=-1)
        self.dispatcher.set_inputs(hidden)
        per_expert = max(1, hidden.shape[0] // probs.shape[1])
        for e in range(probs.shape[1]):
            top = torch.topk(probs[:, e], per_expert)
            self.dispatcher.dispatch(e, hidden, top.indices, top.values)
        out = self.dispatcher.wait()
        return self.norm(out + hidden)
