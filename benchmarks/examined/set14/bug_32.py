import torch


class GraphSlot:
    def __init__(self, rows, width, device):
        self.tokens = torch.zeros(rows, width, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.logits = None


class PhaseRunner:
    """Prefill and decode of two disjoint groups of requests, each as a graph."""

    def __init__(self, model, prefill_shape, decode_shape, device="cuda"):
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.prefill = GraphSlot(*prefill_shape, self.device)
        self.decode = GraphSlot(*decode_shape, self.device)
        self.prefill_stream = torch.cuda.Stream(self.device)
        self.decode_stream = torch.cuda.Stream(self.device)
        self.pool = None

    @torch.inference_mode()
    def capture(self):
        for slot in (self.prefill, self.decode):
            side = torch.cuda.Stream(self.device)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.model(slot.tokens)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(slot.graph, pool=self.pool):
                slot.logits = self.model(slot.tokens)
            if self.pool is None:
                self.pool = slot.graph.pool()
        torch.cuda.synchronize(self.device)

    def _run(self, slot, stream, tokens):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            slot.tokens.copy_(tokens, non_blocking=True)
            slot.graph.replay()
            return slot.logits.argmax(dim=-1)

    @torch.inference_mode()
    def step(self, prefill_tokens, decode_tokens):
        current = torch.cuda.current_stream()
        first = self._run(self.prefill, self.prefill_stream, prefill_tokens)
        following = self._run(self.decode, self.decode_stream, decode_tokens)
        for stream, out in ((self.prefill_stream, first), (self.decode_stream, following)):
            current.wait_stream(stream)
            out.record_stream(current)
        return first, following


def serve(model, scheduler, prefill_shape, decode_shape):
    runner = PhaseRunner(model, prefill_shape, decode_shape)
    runner.capture()
    while scheduler.has_work():
        prefill, decode = scheduler.next_step()
        first, following = runner.step(prefill.pin_memory(), decode.pin_memory())
        scheduler.update(first.cpu(), following.cpu())
