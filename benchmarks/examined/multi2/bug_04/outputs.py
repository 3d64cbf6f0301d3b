from typing import List

import torch


class PendingOutput:
    """Result of one decode step on its way to the host."""

    def __init__(self, token_ids: torch.Tensor, logprobs: torch.Tensor, stream):
        self._device_refs = (token_ids, logprobs)
        self.ready = torch.cuda.Event()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._token_ids = token_ids.to("cpu", non_blocking=True)
            self._logprobs = logprobs.to("cpu", non_blocking=True)
            self.ready.record()

    @property
    def token_ids(self) -> torch.Tensor:
        return self._token_ids

    @property
    def logprobs(self) -> torch.Tensor:
        return self._logprobs

    def __len__(self):
        return self._token_ids.shape[0]

    def wait(self) -> "PendingOutput":
        self.ready.synchronize()
        self._device_refs = ()
        return self


def gather_finished(ids: List[int], eos: int) -> List[int]:
    return [i for i, t in enumerate(ids) if t == eos]


def longest(texts):
    return max((len(t) for t in texts.values()), default=0)
