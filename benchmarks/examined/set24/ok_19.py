import torch


class DecodeState:
    """Static tensors shared by the decode graphs of all batch buckets."""

    def __init__(self, max_batch, max_blocks, device):
        self.tokens = torch.zeros((max_batch, 1), dtype=torch.int64, device=device)
        self.input_pos = torch.zeros((max_batch,), dtype=torch.int64, device=device)
        self.block_table = torch.zeros((max_batch, max_blocks), dtype=torch.int32, device=device)
        self.next_tokens = torch.zeros((max_batch,), dtype=torch.int64, device=device)


class CudaGraphManager:
    def __init__(self, model, buckets, max_blocks, device="cuda"):
        self.model = model
        self.buckets = sorted(buckets)
        self.device = torch.device(device)
        self.state = DecodeState(self.buckets[-1], max_blocks, self.device)
        self.pool = None
        self.graphs = {}

    def _step(self, batch):
        st = self.state
        logits = self.model(st.tokens[:batch], st.input_pos[:batch], st.block_table[:batch])
        st.next_tokens[:batch].copy_(logits[:, -1].argmax(-1))
        st.input_pos[:batch].add_(1)
        st.tokens[:batch, 0].copy_(st.next_tokens[:batch])

    @torch.inference_mode()
    def capture_all(self):
        for batch in reversed(self.buckets):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._step(batch)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self._step(batch)
            if self.pool is None:
                self.pool = graph.pool()
            self.graphs[batch] = graph

    def bucket_for(self, n):
        return next(b for b in self.buckets if b >= n)

    @torch.inference_mode()
    def load(self, tokens, positions, table):
        n = len(tokens)
        bucket = self.bucket_for(n)
        st = self.state
        st.tokens[:n, 0].copy_(torch.tensor(tokens, dtype=torch.int64))
        st.input_pos[:n].copy_(torch.tensor(positions, dtype=torch.int64))
        st.block_table[:n].copy_(table)
        if bucket > n:
            st.tokens[n:bucket].zero_()
            st.input_pos[n:bucket].zero_()
            st.block_table[n:bucket].zero_()
        return bucket

    def replay(self, bucket):
        self.graphs[bucket].replay()


@torch.inference_mode()
def generate(manager, tokens, positions, table, steps, eos):
    n = len(tokens)
    bucket = manager.load(tokens, positions, table)
    ring = torch.zeros((steps, n), dtype=torch.int64, device=manager.device)
    host = torch.empty((2, n), dtype=torch.int64, pin_memory=True)
    events = [torch.cuda.Event() for _ in range(2)]
    copy_stream = torch.cuda.Stream(manager.device)
    finished = [False] * n
    output = [[] for _ in range(n)]

    def harvest(step):
        events[step % 2].synchronize()
        for i, tok in enumerate(host[step % 2].tolist()):
            if not finished[i]:
                output[i].append(tok)
                finished[i] = tok == eos

    last = -1
    for step in range(steps):
        manager.replay(bucket)
        ring[step].copy_(manager.state.next_tokens[:n])
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            host[step % 2].copy_(ring[step], non_blocking=True)
            events[step % 2].record(copy_stream)
        last = step
        if step >= 1:
            harvest(step - 1)
        if all(finished):
            break
    if last >= 0:
        harvest(last)
    torch.cuda.current_stream().wait_stream(copy_stream)
    return output
