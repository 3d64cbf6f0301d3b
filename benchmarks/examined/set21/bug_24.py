"""Device-level GEMM operator: workspace handling and launch."""
import numpy as np
from cuda.bindings import driver, runtime as cudart


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


class GemmArguments:
    def __init__(self, m, n, k, ptr_a, ptr_b, ptr_c, split_k_slices=1):
        self.m, self.n, self.k = m, n, k
        self.ptr_a, self.ptr_b, self.ptr_c = ptr_a, ptr_b, ptr_c
        self.split_k_slices = split_k_slices


class GemmSplitKSerial:
    """Serial split-K: slices of one tile take turns through a semaphore in the workspace."""

    TILE_M, TILE_N, THREADS = 128, 128, 256

    def __init__(self, function):
        self.function = function
        self.workspace = None
        self.args = None

    def get_workspace_size(self, args):
        tiles = -(-args.m // self.TILE_M) * -(-args.n // self.TILE_N)
        return 4 * tiles if args.split_k_slices > 1 else 0

    def initialize(self, args, workspace=None, stream=0):
        nbytes = self.get_workspace_size(args)
        if nbytes:
            if workspace is None:
                raise ValueError("workspace required for split-K")
            check(cudart.cudaMemsetAsync(workspace, 0, nbytes, 0))
        self.workspace = workspace
        self.args = args

    def run(self, stream=0):
        a = self.args
        grid = (-(-a.m // self.TILE_M), -(-a.n // self.TILE_N), a.split_k_slices)
        values = (
            np.array([a.m, a.n, a.k], dtype=np.int32),
            np.array([a.ptr_a, a.ptr_b, a.ptr_c, self.workspace or 0], dtype=np.uint64),
        )
        slots = np.array(
            [values[0][i:].ctypes.data for i in range(3)] + [values[1][i:].ctypes.data for i in range(4)],
            dtype=np.uint64,
        )
        check(driver.cuLaunchKernel(
            self.function, *grid, self.THREADS, 1, 1, 0, stream, slots.ctypes.data, 0))

    def __call__(self, args, workspace=None, stream=0):
        self.initialize(args, workspace, stream)
        self.run(stream)


class MlpBlock:
    """Two projections that share one operator and one workspace."""

    def __init__(self, function, batch, hidden, inner):
        self.op = GemmSplitKSerial(function)
        self.batch, self.hidden, self.inner = batch, hidden, inner
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        probe = GemmArguments(batch, max(hidden, inner), 1, 0, 0, 0, split_k_slices=8)
        self.workspace = check(cudart.cudaMalloc(self.op.get_workspace_size(probe)))

    def forward(self, x, w_up, w_down, h, y):
        up = GemmArguments(self.batch, self.inner, self.hidden, x, w_up, h, split_k_slices=8)
        down = GemmArguments(self.batch, self.hidden, self.inner, h, w_down, y, split_k_slices=8)
        self.op(up, self.workspace, self.stream)
        self.op(down, self.workspace, self.stream)

    def synchronize(self):
        check(cudart.cudaStreamSynchronize(self.stream))
