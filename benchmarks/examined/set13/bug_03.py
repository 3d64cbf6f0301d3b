import cupy
import torch
import torch.nn as nn

_SPMM_SRC = r"""
extern "C" __global__
void spmm_csr_sum(const long long* indptr, const long long* indices,
                  const float* ufeat, float* out, int num_rows, int dim) {
    int row = blockIdx.x;
    if (row >= num_rows) return;
    for (int f = threadIdx.x; f < dim; f += blockDim.x) {
        float acc = out[row * (long long)dim + f];
        for (long long e = indptr[row]; e < indptr[row + 1]; ++e)
            acc += ufeat[indices[e] * dim + f];
        out[row * (long long)dim + f] = acc;
    }
}
"""
_spmm_kernel = cupy.RawKernel(_SPMM_SRC, "spmm_csr_sum")


def _gspmm_copy_u_sum(block, ufeat):
    num_rows = block.num_dst_nodes
    dim = ufeat.shape[1]
    out = torch.zeros(num_rows, dim, device=ufeat.device)
    _spmm_kernel(
        (num_rows,), (min(dim, 256),),
        (block.indptr.data_ptr(), block.indices.data_ptr(), ufeat.data_ptr(), out.data_ptr(),
         cupy.int32(num_rows), cupy.int32(dim)),
    )
    return out


class SAGEConv(nn.Module):
    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.fc_self = nn.Linear(in_feats, out_feats)
        self.fc_neigh = nn.Linear(in_feats, out_feats, bias=False)

    def forward(self, block, h):
        h = h.contiguous()
        neigh = _gspmm_copy_u_sum(block, h)
        return self.fc_self(h[: block.num_dst_nodes]) + self.fc_neigh(neigh)


class StreamedInference:
    def __init__(self, layers, feat, device="cuda"):
        self.layers = nn.ModuleList(layers).to(device).eval()
        self.feat = feat.to(device)
        self.stream = torch.cuda.Stream(device=device)
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def run(self, input_nodes, blocks):
        with torch.cuda.stream(self.stream):
            h = self.feat[input_nodes]
            for i, (layer, block) in enumerate(zip(self.layers, blocks)):
                h = layer(block, h)
                if i != len(self.layers) - 1:
                    h = torch.relu(h)
            return h.argmax(dim=1).cpu()
