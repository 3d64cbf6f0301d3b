import bisect

import torch


class CUDAGraphRunner:
    def __init__(self, model, max_batch, mrope_deltas, dummy_slot, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.batch_sizes = sorted({1, 2, 4, 8, 16, max_batch})
        self.mrope_deltas = mrope_deltas
        self.mrope_dummy_seq_slot = dummy_slot
        self.shared_static_tensors = {
            "input_ids": torch.zeros(max_batch, dtype=torch.int32, device=self.device),
            "position_ids": torch.zeros(max_batch, dtype=torch.int32, device=self.device),
            "mrope_delta_read_seq_slots": torch.full(
                (max_batch,), dummy_slot, dtype=torch.long, device=self.device
            ),
        }
        self.graphs = {}
        self.graph_outputs = {}
        self.memory_pool = None

    def _static(self, batch_size):
        return {k: v[:batch_size] for k, v in self.shared_static_tensors.items()}

    def _forward(self, inputs):
        delta = self.mrope_deltas[inputs["mrope_delta_read_seq_slots"]]
        return self.model(inputs["input_ids"], inputs["position_ids"] + delta)

    @torch.inference_mode()
    def capture(self):
        for batch_size in reversed(self.batch_sizes):
            inputs = self._static(batch_size)
            side = torch.cuda.Stream(self.device)
            side.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._forward(inputs)
            torch.cuda.current_stream(self.device).wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.memory_pool):
                output = self._forward(inputs)
            self.graphs[batch_size] = graph
            self.graph_outputs[batch_size] = output
            self.memory_pool = graph.pool()

    def padded_batch_size(self, n):
        return self.batch_sizes[bisect.bisect_left(self.batch_sizes, n)]

    @torch.inference_mode()
    def replay(self, inputs):
        n = inputs["input_ids"].shape[0]
        batch_size = self.padded_batch_size(n)
        static = self._static(batch_size)
        static["input_ids"][:n].copy_(inputs["input_ids"])
        static["position_ids"][:n].copy_(inputs["position_ids"])
        slots = inputs.get("mrope_delta_read_seq_slots")
        if slots is not None:
            static["mrope_delta_read_seq_slots"].fill_(self.mrope_dummy_seq_slot)
            static["mrope_delta_read_seq_slots"][:n].copy_(slots)
        self.graphs[batch_size].replay()
        return self.graph_outputs[batch_size][:n].clone()


def decode_step(runner, requests):
    device = runner.device
    inputs = {
        "input_ids": torch.tensor([r.last_token for r in requests], dtype=torch.int32, device=device),
        "position_ids": torch.tensor([r.position for r in requests], dtype=torch.int32, device=device),
    }
    if any(r.multimodal for r in requests):
        inputs["mrope_delta_read_seq_slots"] = torch.tensor(
            [r.seq_slot for r in requests], dtype=torch.long, device=device
        )
    return runner.replay(inputs).argmax(dim=-1).tolist()
