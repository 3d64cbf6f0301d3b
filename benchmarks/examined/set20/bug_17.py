"""Test utilities: run device tests under a non-default stream and compare with the CPU."""
import functools
import unittest

import torch


class CudaNonDefaultStream:
    """Switch every device to a fresh stream inside the block and back afterwards."""

    def __enter__(self):
        before = torch.cuda.current_device()
        self.before_streams = []
        for d in range(torch.cuda.device_count()):
            self.before_streams.append(torch.cuda.current_stream(d))
            torch.cuda.set_stream(torch.cuda.Stream(device=d))
        torch.cuda.set_device(before)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        before = torch.cuda.current_device()
        for d in range(torch.cuda.device_count()):
            torch.cuda.set_stream(self.before_streams[d])
        torch.cuda.set_device(before)


class DeviceTestCase(unittest.TestCase):
    _do_cuda_non_default_stream = True

    def __init__(self, method_name="runTest"):
        super().__init__(method_name)
        test_method = getattr(self, method_name, None)
        if test_method is not None and self._do_cuda_non_default_stream:
            setattr(self, method_name, self.wrap_with_non_default_stream(test_method))

    def wrap_with_non_default_stream(self, method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            with CudaNonDefaultStream():
                method(*args, **kwargs)
        return wrapper

    def assertClose(self, actual, expected, tol=1e-2):
        diff = (actual.double().cpu() - expected.double().cpu()).abs().max().item()
        self.assertLessEqual(diff, tol)


def make_spd(batch, n, device, dtype):
    a = torch.randn(batch, n, n, device=device, dtype=dtype)
    return a @ a.transpose(-1, -2) + n * torch.eye(n, device=device, dtype=dtype)


class TestLinalg(DeviceTestCase):
    batch, n = 64, 512

    def setUp(self):
        torch.manual_seed(7)
        self.device = torch.device("cuda", 0)
        self.a = make_spd(self.batch, self.n, self.device, torch.float32)
        self.b = torch.randn(self.batch, self.n, 4, device=self.device)
        self.scale = torch.linspace(0.5, 2.0, self.n, device=self.device)

    def test_matmul(self):
        out = self.a @ self.b
        self.assertClose(out, self.a.cpu() @ self.b.cpu())

    def test_row_scale_inplace(self):
        x = self.a.clone()
        x.mul_(self.scale.unsqueeze(-1))
        expected = self.a.cpu() * self.scale.cpu().unsqueeze(-1)
        self.assertClose(x, expected)

    def test_cholesky_residual(self):
        chol = torch.linalg.cholesky(self.a)
        self.assertClose(chol @ chol.transpose(-1, -2), self.a, tol=0.5)

    def test_sum_reductions(self):
        for dim in (0, 1, 2):
            self.assertClose(self.a.sum(dim), self.a.cpu().sum(dim), tol=1.0)


if __name__ == "__main__":
    unittest.main()
