import torch
import torch.distributed as dist


class WholeMemoryCommunicator:
    """Communicator of a distributed store, with an internal stream for its collectives."""

    def __init__(self, group, device: torch.device):
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.token = torch.zeros(1, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def barrier(self):
        with torch.cuda.stream(self.stream):
            dist.all_reduce(self.token, group=self.group)
        self.stream.synchronize()


class WholeMemoryTensor:
    """Rows spread evenly over the ranks; every rank keeps its rows in pinned host memory."""

    def __init__(self, comm: WholeMemoryCommunicator, rows: int, dtype: torch.dtype):
        self.comm = comm
        self.rows = rows
        per_rank = (rows + comm.size - 1) // comm.size
        self.begin = min(rows, comm.rank * per_rank)
        self.end = min(rows, self.begin + per_rank)
        self.local = torch.zeros(self.end - self.begin, dtype=dtype, pin_memory=True)

    def scatter(self, start: int, values: torch.Tensor):
        """Stores values[i] in row start + i, as far as the rows are local."""
        lo = max(start, self.begin)
        hi = min(start + values.numel(), self.end)
        if lo < hi:
            part = values[lo - start:hi - start]
            self.local[lo - self.begin:hi - self.begin].copy_(part, non_blocking=True)

    def get_local_tensor(self) -> torch.Tensor:
        return self.local


class DistMatrix:
    """Edge list in COO form, column and row in one distributed tensor each."""

    def __init__(self, comm: WholeMemoryCommunicator, num_edges: int):
        self.comm = comm
        self.col = WholeMemoryTensor(comm, num_edges, torch.int64)
        self.row = WholeMemoryTensor(comm, num_edges, torch.int64)

    def __setitem__(self, where: slice, edges: tuple[torch.Tensor, torch.Tensor]):
        start = where.start or 0
        col, row = edges
        self.col.scatter(start, col)
        self.row.scatter(start, row)
        self.comm.barrier()

    @property
    def local_col(self) -> torch.Tensor:
        return self.col.get_local_tensor()

    @property
    def local_row(self) -> torch.Tensor:
        return self.row.get_local_tensor()


class GraphStore:
    def __init__(self, comm: WholeMemoryCommunicator, num_nodes: int):
        self.comm = comm
        self.num_nodes = num_nodes
        self.matrix: DistMatrix | None = None

    def put_edges(self, src: torch.Tensor, dst: torch.Tensor, chunk: int = 1 << 20):
        order = torch.argsort(src * self.num_nodes + dst)
        src, dst = src[order], dst[order]
        self.matrix = DistMatrix(self.comm, src.numel())
        for start in range(0, src.numel(), chunk):
            stop = min(start + chunk, src.numel())
            self.matrix[start:stop] = (dst[start:stop], src[start:stop])

    def local_statistics(self) -> dict[str, float]:
        col, row = self.matrix.local_col, self.matrix.local_row
        in_degree = torch.bincount(col, minlength=self.num_nodes)
        out_degree = torch.bincount(row, minlength=self.num_nodes)
        return {
            "edges": float(col.numel()),
            "max_in": float(in_degree.max()),
            "max_out": float(out_degree.max()),
            "isolated": float(((in_degree + out_degree) == 0).sum()),
        }


def main(num_nodes=1 << 20, num_edges=1 << 24):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    generator = torch.Generator(device).manual_seed(1)
    comm = WholeMemoryCommunicator(dist.group.WORLD, device)

    src = torch.randint(num_nodes, (num_edges,), device=device, generator=generator)
    dst = torch.randint(num_nodes, (num_edges,), device=device, generator=generator)
    store = GraphStore(comm, num_nodes)
    store.put_edges(src, dst)
    print(comm.rank, store.local_statistics())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
