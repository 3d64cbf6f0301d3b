import torch
import triton
import triton.language as tl


@triton.jit
def concat_rows_kernel(table_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < cols
    src = tl.load(table_ptr + row).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + row * cols + offs, tl.load(src + offs, mask=mask), mask=mask)


class ConcatFunctor:
    """Concatenates many vectors through a table of device pointers."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.cols = inputs[0].numel()
        self.table = torch.zeros(len(inputs), dtype=torch.int64, device="cuda")
        self.out = torch.zeros(len(inputs), self.cols, device="cuda")

    def host_table(self):
        return torch.tensor([t.data_ptr() for t in self.inputs], dtype=torch.int64).pin_memory()

    def run(self, host):
        self.table.copy_(host, non_blocking=True)
        grid = (len(self.inputs), triton.cdiv(self.cols, 1024))
        concat_rows_kernel[grid](self.table, self.out, self.cols, BLOCK=1024)
        return self.out


class GraphedRanker:
    def __init__(self, num_features=64, dim=4096):
        self.features = [torch.zeros(dim, device="cuda") for _ in range(num_features)]
        self.concat = ConcatFunctor(self.features)
        self.head = torch.nn.Linear(dim, 1).cuda()
        self.table = torch.nn.Embedding(100000, dim).cuda()

    @torch.inference_mode()
    def capture(self):
        host = self.concat.host_table()
        self.concat.run(host)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.head(self.concat.run(host)).squeeze(-1)
        return self.scores.shape

    @torch.inference_mode()
    def rank(self, ids):
        staged = torch.tensor(ids, dtype=torch.int64).pin_memory()
        rows = self.table(staged.to("cuda", non_blocking=True))
        for dst, row in zip(self.features, rows):
            dst.copy_(row)
        self.graph.replay()
        return self.scores.clone()


def serve(requests):
    ranker = GraphedRanker()
    ranker.capture()
    return [ranker.rank(ids).argsort(descending=True).tolist() for ids in requests]
