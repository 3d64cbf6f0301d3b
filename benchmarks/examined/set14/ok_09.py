import pytest
import torch

DEV = "cuda"


def topk_varlen(logits, seq_lens, k, out):
    """Indices of the k largest valid logits of each row, written to out."""
    column = torch.arange(logits.shape[1], device=logits.device)
    masked = logits.masked_fill(column[None, :] >= seq_lens[:, None], float("-inf"))
    out.copy_(masked.topk(k, dim=1).indices.to(torch.int32))
    return out


def _work(copies, rows, n, k, seed):
    gen = torch.Generator(device=DEV).manual_seed(seed)
    work = []
    for _ in range(copies):
        logits = torch.randn(rows, n, generator=gen, device=DEV)
        seq = torch.randint(n // 2, n, (rows,), generator=gen, device=DEV, dtype=torch.int32)
        out = torch.full((rows, k), -7, dtype=torch.int32, device=DEV)
        work.append((logits, seq, out))
    return work


def _reference(logits, seq, k):
    host = logits.cpu()
    rows = []
    for row, length in zip(host, seq.tolist()):
        rows.append(row[:length].topk(k).values)
    return torch.stack(rows)


@pytest.mark.parametrize("rows,n,k", [(4, 65536, 64), (32, 32768, 128)])
@pytest.mark.parametrize("copies", [2, 4])
def test_concurrent_calls_do_not_interfere(rows, n, k, copies):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    work = _work(copies, rows, n, k, seed=rows * n + copies)
    streams = [torch.cuda.Stream() for _ in range(copies)]
    torch.cuda.synchronize()
    for _ in range(8):
        for stream, (logits, seq, out) in zip(streams, work):
            with torch.cuda.stream(stream):
                topk_varlen(logits, seq, k, out)
    torch.cuda.synchronize()

    for logits, seq, out in work:
        picked = torch.gather(logits, 1, out.long()).cpu()
        expected = _reference(logits, seq, k)
        torch.testing.assert_close(picked.sort(dim=1).values, expected.sort(dim=1).values)


def test_empty_batch():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    logits = torch.empty(0, 1024, device=DEV)
    seq = torch.empty(0, dtype=torch.int32, device=DEV)
    out = torch.empty(0, 8, dtype=torch.int32, device=DEV)
    assert topk_varlen(logits, seq, 8, out).numel() == 0
