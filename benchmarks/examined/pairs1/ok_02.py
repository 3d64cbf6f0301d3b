"""Model outputs whose host copy is awaited lazily by the engine core."""
import queue
import threading

import torch


class AsyncSamplerOutput:
    def __init__(self, token_ids, logprobs, copy_stream):
        self._event = torch.cuda.Event()
        main = torch.cuda.current_stream()
        self._device = (token_ids, logprobs)
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main)
            self.token_ids = token_ids.to("cpu", non_blocking=True)
            self.logprobs = logprobs.to("cpu", non_blocking=True)
            self._event.record()

    def get_output(self):
        self._event.synchronize()
        self._device = None
        return self.token_ids.tolist(), self.logprobs.tolist()


class OutputThread(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.inbox = queue.Queue()
        self.texts = []

    def run(self):
        while (item := self.inbox.get()) is not None:
            ids, lps = item.get_output()
            self.texts.append((ids, sum(lps)))


def main(steps=64, batch=32, vocab=32000):
    head = torch.randn(512, vocab, device="cuda", dtype=torch.bfloat16)
    hidden = torch.randn(batch, 512, device="cuda", dtype=torch.bfloat16)
    copy_stream = torch.cuda.Stream()
    out = OutputThread()
    out.start()
    for _ in range(steps):
        logits = (hidden @ head).float()
        lp, ids = logits.log_softmax(-1).max(-1)
        out.inbox.put(AsyncSamplerOutput(ids, lp, copy_stream))
        hidden = torch.tanh(hidden * 1.01)
    out.inbox.put(None)
    out.join()
    return out.texts


if __name__ == "__main__":
    print(len(main()))
