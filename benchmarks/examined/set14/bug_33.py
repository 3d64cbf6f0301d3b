import torch
import torch.distributed as dist
from torch import nn


class DispatchHandle:
    def __init__(self, out, done, started=None):
        self.out = out
        self.done = done
        self.started = started

    def wait(self):
        torch.cuda.current_stream().wait_event(self.done)
        return self.out

    def elapsed(self):
        self.done.synchronize()
        return self.started.elapsed_time(self.done)


class TokenDispatcher:
    def __init__(self, group, profile=False):
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.comm_stream = torch.cuda.Stream()
        self.profile = profile

    def exchange(self, tokens):
        current = torch.cuda.current_stream()
        out = torch.empty_like(tokens)
        started = torch.cuda.Event(enable_timing=self.profile)
        done = torch.cuda.Event(enable_timing=self.profile)
        self.comm_stream.wait_stream(current)
        with torch.cuda.stream(self.comm_stream):
            if self.profile:
                started.record(self.comm_stream)
            dist.all_to_all_single(out, tokens, group=self.group)
            if self.profile:
                done.record(self.comm_stream)
        tokens.record_stream(self.comm_stream)
        out.record_stream(self.comm_stream)
        return DispatchHandle(out, done, started)


class ExpertParallelBlock(nn.Module):
    def __init__(self, hidden, inter, group, profile=False):
        super().__init__()
        self.dispatcher = TokenDispatcher(group, profile)
        self.dense = nn.Sequential(nn.Linear(hidden, inter), nn.GELU(), nn.Linear(inter, hidden))
        self.expert = nn.Sequential(nn.Linear(hidden, inter), nn.GELU(), nn.Linear(inter, hidden))
        self.timings = []

    @torch.no_grad()
    def forward(self, hidden_states):
        permuted = hidden_states[torch.randperm(hidden_states.shape[0], device=hidden_states.device)]
        handle = self.dispatcher.exchange(permuted)
        residual = self.dense(hidden_states)
        routed = self.expert(handle.wait())
        back = self.dispatcher.exchange(routed)
        residual = residual + hidden_states
        out = residual + back.wait()
        if self.dispatcher.profile:
            self.timings.append(handle.elapsed() + back.elapsed())
        return out
