import functools

import torch
import triton
import triton.language as tl

SPLIT_K = 4


@triton.jit
def _splitk_gemm_kernel(a_ptr, b_ptr, c_ptr, ws_ptr, sem_ptr, M, N, K,
                        SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_n, pid_k = tl.program_id(0), tl.program_id(1)
    rm = tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    k_len = K // SPLIT
    for k in range(pid_k * k_len, (pid_k + 1) * k_len, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=rm[:, None] < M, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :])
        acc += tl.dot(a, b)
    tile = rm[:, None] * N + rn[None, :]
    tl.store(ws_ptr + pid_k * BM * N + tile, acc)
    tl.debug_barrier()
    arrival = tl.atomic_add(sem_ptr + pid_n, 1)
    if arrival == SPLIT - 1:
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for s in range(SPLIT):
            total += tl.load(ws_ptr + s * BM * N + tile)
        tl.store(c_ptr + tile, total.to(c_ptr.dtype.element_ty), mask=rm[:, None] < M)
        tl.atomic_xchg(sem_ptr + pid_n, 0)


@functools.lru_cache(maxsize=128)
def _get_splitk_buffers(device, stream):
    workspace = torch.empty(SPLIT_K * 16 * 8192, dtype=torch.float32, device=device)
    semaphore = torch.zeros(256, dtype=torch.int32, device=device)
    return workspace, semaphore


def gemm(a, b):
    M, K = a.shape
    N = b.shape[1]
    if M > 16:
        return a @ b
    workspace, semaphore = _get_splitk_buffers(a.device, torch.cuda.current_stream().cuda_stream)
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    _splitk_gemm_kernel[(N // 64, SPLIT_K)](
        a, b, c, workspace, semaphore, M, N, K, SPLIT=SPLIT_K, BM=16, BN=64, BK=64
    )
    return c


class DecodeGraphs:
    def __init__(self, w1, w2, sizes=(64, 32, 16, 8, 4, 2, 1)):
        self.w1, self.w2 = w1, w2
        self.sizes = sizes
        self.x = torch.zeros(max(sizes), w1.shape[0], dtype=w1.dtype, device=w1.device)
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()
        self.graphs, self.outputs = {}, {}

    def _mlp(self, x):
        return gemm(torch.nn.functional.silu(gemm(x, self.w1)), self.w2)

    @torch.no_grad()
    def capture(self):
        self._mlp(self.x[:16])
        torch.cuda.synchronize()
        for bs in self.sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                self.outputs[bs] = self._mlp(self.x[:bs])
            self.graphs[bs] = graph

    @torch.no_grad()
    def run(self, x):
        bs = min(s for s in self.sizes if s >= x.shape[0])
        self.x[: x.shape[0]].copy_(x)
        self.graphs[bs].replay()
        return self.outputs[bs][: x.shape[0]].clone()
