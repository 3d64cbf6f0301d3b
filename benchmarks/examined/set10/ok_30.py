import torch


class StaticBatch:
    def __init__(self, max_q, max_kv, device):
        self.input_ids = torch.zeros(1, max_q, dtype=torch.int64, device=device)
        self.position_ids = torch.zeros(1, max_q, dtype=torch.int64, device=device)
        self.write_index = torch.full((max_q,), -1, dtype=torch.int64, device=device)
        self.read_index = torch.full((max_kv,), -1, dtype=torch.int64, device=device)
        self.output_ids = torch.zeros(1, max_q, dtype=torch.int64, device=device)

    def fill(self, ids, positions, write, read, q, kv):
        n, m = len(ids), len(read)
        self.input_ids[:, :q].zero_()
        self.write_index[:q].fill_(-1)
        self.read_index[:kv].fill_(-1)
        self.input_ids[0, :n].copy_(torch.tensor(ids))
        self.position_ids[0, :n].copy_(torch.tensor(positions))
        self.write_index[:n].copy_(torch.tensor(write))
        self.read_index[:m].copy_(torch.tensor(read))

    def view(self, q, kv):
        return (
            self.input_ids[:, :q],
            self.position_ids[:, :q],
            self.write_index[:q],
            self.read_index[:kv],
        )


class ContinuousBatchRunner:
    def __init__(self, model, cache, max_q=512, max_kv=8192, q_parts=4, kv_parts=8, device="cuda"):
        self.model, self.cache = model, cache
        self.static = StaticBatch(max_q, max_kv, device)
        self.q_step, self.kv_step = max_q // q_parts, max_kv // kv_parts
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle()

    @staticmethod
    def _pad(value, step):
        return (value + step - 1) // step * step

    def _forward(self, q, kv):
        ids, pos, write, read = self.static.view(q, kv)
        logits = self.model(ids, pos, self.cache, write, read)
        self.static.output_ids[:, :q].copy_(logits.argmax(-1))

    def _graph(self, q, kv):
        graph = self.graphs.get((q, kv))
        if graph is None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._forward(q, kv)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self._forward(q, kv)
            self.graphs[(q, kv)] = graph
        return graph

    @torch.inference_mode()
    def step(self, ids, positions, write, read, last):
        q, kv = self._pad(len(ids), self.q_step), self._pad(len(read), self.kv_step)
        self.static.fill(ids, positions, write, read, q, kv)
        self._graph(q, kv).replay()
        picked = self.static.output_ids[0, torch.tensor(last, device="cuda")].clone()
        return picked

    def generate(self, scheduler):
        while scheduler.has_work():
            batch = scheduler.next_batch()
            tokens = self.step(*batch)
            scheduler.update(tokens.tolist())
