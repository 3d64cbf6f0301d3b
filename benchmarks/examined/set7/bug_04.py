import queue
import threading
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch


@dataclass
class ExpertExecArgs:
    layer_idx: int
    expert_idx: int
    token_idx: torch.Tensor
    weights: torch.Tensor


class ExpertDispatcher:
    """Runs routed experts on a dedicated stream from a background thread."""

    def __init__(self, experts: Dict[Tuple[int, int], torch.nn.Module], device: torch.device):
        self.experts = experts
        self.device = device
        self.exec_stream = torch.cuda.Stream(device)
        self._tasks: "queue.Queue" = queue.Queue()
        self._cv = threading.Condition()
        self._pending = 0
        self._inflight: List[ExpertExecArgs] = []
        self.hidden_states = None
        self.final_hidden_states = None
        self._worker = threading.Thread(target=self._gpu_exec_func, daemon=True)
        self._worker.start()

    def set_inputs(self, hidden_states: torch.Tensor) -> None:
        self.hidden_states = hidden_states
        self.final_hidden_states = torch.zeros_like(hidden_states)

    def enqueue_expert(self, args: ExpertExecArgs) -> None:
        with self._cv:
            self._pending += 1
            self._inflight.append(args)
        self._tasks.put(args)

    def _gpu_exec_func(self) -> None:
        torch.cuda.set_device(self.device)
        while True:
            args = self._tasks.get()
            if args is None:
                return
            expert = self.experts[(args.layer_idx, args.expert_idx)]
            expert_input = self.hidden_states.index_select(0, args.token_idx)
            expert_input = expert_input.to(next(expert.parameters()).dtype)
            expert_input.record_stream(self.exec_stream)
            with torch.cuda.stream(self.exec_stream):
                self._run_expert(expert, expert_input, args)
            with self._cv:
                self._pending -= 1
                self._cv.notify_all()

    @torch.no_grad()
    def _run_expert(self, expert, expert_input: torch.Tensor, args: ExpertExecArgs) -> None:
        output = expert(expert_input)
        output = output.to(self.final_hidden_states.dtype) * args.weights[:, None]
        self.final_hidden_states.index_add_(0, args.token_idx, output)

    def wait_hidden_states(self) -> torch.Tensor:
        with self._cv:
            self._cv.wait_for(lambda: self._pending == 0)
        torch.cuda.current_stream(self.device).wait_stream(self.exec_stream)
        self._inflight.clear()
        return self.final_hidden_states

    def shutdown(self) -> None:
        self._tasks.put(None)
        self._worker.join()


class SyncMoEBlock(torch.nn.Module):
    def __init__(self, layer_idx: int, gate: torch.nn.Linear, dispatcher: ExpertDispatcher, top_k: int):
        super().__init__()
        self.layer_idx = layer_idx
        self.gate = gate
        self.dispatcher = dispatcher
        self.top_k = top_k

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        probs = torch.softmax(self.gate(hidden_states), dim=-1)
        weights, selected = torch.topk(probs, self.top_k, dim=-1)
        self.dispatcher.set_inputs(hidden_states)
        capacity = hidden_states.shape[0] * self.top_k // self.gate.out_features
        for e in range(self.gate.out_features):
            score = (weights * (selected == e)).sum(-1)
            top = torch.topk(score, capacity)
            self.dispatcher.enqueue_expert(
                ExpertExecArgs(self.layer_idx, e, top.indices, top.values)
            )
        return self.dispatcher.wait_hidden_states()
