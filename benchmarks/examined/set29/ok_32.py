"""Historical embeddings on the host with asynchronous pulls and pushes for
training on sub-graphs."""
import torch


class AsyncIOPool:
    def __init__(self, pool_size, buffer_rows, dim, device):
        self.device = torch.device(device)
        self.streams = [torch.cuda.Stream(self.device) for _ in range(pool_size)]
        self.cpu = [torch.empty(buffer_rows, dim).pin_memory() for _ in range(pool_size)]
        self.gpu = [torch.empty(buffer_rows, dim, device=self.device) for _ in range(pool_size)]
        self.arrived = [torch.cuda.Event() for _ in range(pool_size)]
        self.released = [torch.cuda.Event() for _ in range(pool_size)]
        self.rows = [0] * pool_size
        self.head = self.tail = 0
        self.push_stream = torch.cuda.Stream(self.device)
        self.push_host = torch.empty(buffer_rows, dim).pin_memory()
        self.pushed = torch.cuda.Event()
        self.push_index = None

    def async_pull(self, emb, index):
        k = self.head % len(self.streams)
        self.head += 1
        self.arrived[k].synchronize()
        n = index.numel()
        torch.index_select(emb, 0, index, out=self.cpu[k][:n])
        with torch.cuda.stream(self.streams[k]):
            self.streams[k].wait_event(self.released[k])
            self.gpu[k][:n].copy_(self.cpu[k][:n], non_blocking=True)
            self.arrived[k].record(self.streams[k])
        self.rows[k] = n

    def synchronize_pull(self):
        k = self.tail % len(self.streams)
        torch.cuda.current_stream(self.device).wait_event(self.arrived[k])
        return self.gpu[k][:self.rows[k]]

    def free_pull(self):
        k = self.tail % len(self.streams)
        self.tail += 1
        self.released[k].record(torch.cuda.current_stream(self.device))

    def async_push(self, src, index):
        self.push_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.push_stream):
            self.push_host[:src.shape[0]].copy_(src, non_blocking=True)
            self.pushed.record(self.push_stream)
        src.record_stream(self.push_stream)
        self.push_index = index

    def synchronize_push(self, emb):
        if self.push_index is None:
            return
        self.pushed.synchronize()
        emb[self.push_index] = self.push_host[:self.push_index.numel()]
        self.push_index = None


def train(num_nodes=200_000, dim=128, batch=4096, steps=30, device="cuda"):
    emb = torch.randn(num_nodes, dim)
    lin = torch.nn.Linear(dim, dim).to(device)
    opt = torch.optim.SGD(lin.parameters(), lr=1e-2)
    pool = AsyncIOPool(2, batch, dim, device)
    torch.cuda.synchronize()
    batches = [torch.randperm(num_nodes)[:batch] for _ in range(steps)]
    pool.async_pull(emb, batches[0])
    for step, index in enumerate(batches):
        x = pool.synchronize_pull()
        out = torch.relu(lin(x))
        loss = out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        pool.free_pull()
        pool.synchronize_push(emb)
        pool.async_push(out.detach(), index)
        if step + 1 < steps:
            pool.async_pull(emb, batches[step + 1])
    pool.synchronize_push(emb)
    return float(loss)


if __name__ == "__main__":
    print(train())
