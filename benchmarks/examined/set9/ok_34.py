from typing import Dict, List, Optional

import torch


class CUDAGraphRunner:
    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.input_buffers: Dict[str, torch.Tensor] = {}
        self.output_buffers: Dict[str, torch.Tensor] = {}
        self._graph: Optional[torch.cuda.CUDAGraph] = None

    def capture(self, input_ids, positions, block_tables, hidden_buffer, memory_pool, stream):
        assert self._graph is None
        # Run the model a few times without capturing the graph.
        for _ in range(2):
            self.model(input_ids, positions, block_tables)
        torch.cuda.synchronize()

        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=memory_pool, stream=stream):
            output = self.model(input_ids, positions, block_tables)
            hidden_buffer.copy_(output)
            del output
        torch.cuda.synchronize()

        self.input_buffers = {"input_ids": input_ids, "positions": positions, "block_tables": block_tables}
        self.output_buffers = {"hidden_states": hidden_buffer}

    def forward(self, input_ids, positions, block_tables):
        # Copy the input tensors to the input buffers.
        self.input_buffers["input_ids"].copy_(input_ids, non_blocking=True)
        self.input_buffers["positions"].copy_(positions, non_blocking=True)
        self.input_buffers["block_tables"].copy_(block_tables, non_blocking=True)
        self._graph.replay()
        return self.output_buffers["hidden_states"]


class ModelRunner:
    def __init__(self, model, hidden_size: int, max_blocks: int, batch_sizes: List[int], device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.batch_sizes = sorted(batch_sizes, reverse=True)
        self.graph_runners: Dict[int, CUDAGraphRunner] = {}
        max_bs = self.batch_sizes[0]
        self.input_ids = torch.zeros(max_bs, dtype=torch.long, device=self.device)
        self.positions = torch.zeros(max_bs, dtype=torch.long, device=self.device)
        self.block_tables = torch.zeros(max_bs, max_blocks, dtype=torch.int32, device=self.device)
        self.hidden_states = torch.zeros(max_bs, hidden_size, dtype=torch.half, device=self.device)
        self.graph_memory_pool = None

    @torch.inference_mode()
    def capture_model(self):
        stream = torch.cuda.Stream(self.device)
        for bs in self.batch_sizes:
            runner = CUDAGraphRunner(self.model)
            runner.capture(
                self.input_ids[:bs],
                self.positions[:bs],
                self.block_tables[:bs],
                self.hidden_states[:bs],
                memory_pool=self.graph_memory_pool,
                stream=stream,
            )
            self.graph_memory_pool = runner._graph.pool()
            self.graph_runners[bs] = runner

    @torch.inference_mode()
    def execute_model(self, input_ids, positions, block_tables, lm_head):
        raw_bs = input_ids.shape[0]
        bs = min(b for b in self.batch_sizes if b >= raw_bs)
        pad = bs - raw_bs
        input_ids = torch.nn.functional.pad(input_ids, (0, pad))
        positions = torch.nn.functional.pad(positions, (0, pad))
        block_tables = torch.nn.functional.pad(block_tables, (0, 0, 0, pad))
        hidden_states = self.graph_runners[bs].forward(input_ids, positions, block_tables)
        return lm_head(hidden_states[:raw_bs]).argmax(dim=-1)
