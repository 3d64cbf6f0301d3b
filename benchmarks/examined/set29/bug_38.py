"""Shallow-water simulator helpers: device fields with asynchronous download
and the NetCDF writer that stores snapshots of the ocean state."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
from netCDF4 import Dataset
from pycuda.compiler import SourceModule

module = SourceModule("""
__global__ void fbl_eta(float* eta, const float* hu, const float* hv, float dt, int nx, int ny) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= nx || j >= ny) return;
    int k = j * nx + i;
    eta[k] -= dt * (hu[k] - hu[k - 1] + hv[k] - hv[k - nx]);
}
""")


class CUDAArray2D:
    def __init__(self, stream, nx, ny, data):
        self.nx, self.ny = nx, ny
        host = cuda.pagelocked_empty((ny, nx), np.float32)
        host[:] = data
        self.data = gpuarray.to_gpu_async(host, stream=stream)
        stream.synchronize()

    def download(self, stream, cpu_data=None, asynch=False):
        if cpu_data is None:
            cpu_data = cuda.pagelocked_empty((self.ny, self.nx), np.float32)
        copy = cuda.Memcpy2D()
        copy.set_src_device(self.data.gpudata)
        copy.set_dst_host(cpu_data)
        copy.width_in_bytes = copy.src_pitch = copy.dst_pitch = self.nx * 4
        copy.height = self.ny
        copy(stream)
        if not asynch:
            stream.synchronize()
        return cpu_data


class SWEData:
    def __init__(self, stream, nx, ny, eta0):
        self.eta = CUDAArray2D(stream, nx, ny, eta0)
        self.hu = CUDAArray2D(stream, nx, ny, 0.1 * eta0)
        self.hv = CUDAArray2D(stream, nx, ny, -0.1 * eta0)

    def download(self, stream):
        hu = self.hu.download(stream, asynch=True)
        hv = self.hv.download(stream, asynch=True)
        eta = self.eta.download(stream, asynch=True)
        return eta, hu, hv


class Simulator:
    def __init__(self, nx, ny, dt):
        self.nx, self.ny, self.dt = nx, ny, dt
        self.stream = cuda.Stream()
        y, x = np.mgrid[0:ny, 0:nx].astype(np.float32)
        eta0 = np.exp(-((x - nx / 2) ** 2 + (y - ny / 2) ** 2) / 5000.0)
        self.fields = SWEData(self.stream, nx, ny, eta0)
        self.kernel = module.get_function("fbl_eta")

    def step(self, n):
        f = self.fields
        grid = ((self.nx + 15) // 16, (self.ny + 15) // 16)
        for _ in range(n):
            self.kernel(f.eta.data.gpudata, f.hu.data.gpudata, f.hv.data.gpudata, np.float32(self.dt),
                        np.int32(self.nx), np.int32(self.ny), block=(16, 16, 1), grid=grid,
                        stream=self.stream)


class NetCDFWriter:
    def __init__(self, path, sim):
        self.sim = sim
        self.nc = Dataset(path, "w", clobber=True)
        for name, size in (("time", None), ("y", sim.ny), ("x", sim.nx)):
            self.nc.createDimension(name, size)
        self.vars = [self.nc.createVariable(v, "f4", ("time", "y", "x")) for v in ("eta", "hu", "hv")]
        self.index = 0

    def write_timestep(self):
        for var, values in zip(self.vars, self.sim.fields.download(self.sim.stream)):
            var[self.index, :] = values
        self.index += 1


if __name__ == "__main__":
    sim = Simulator(2000, 1500, 0.05)
    writer = NetCDFWriter("ocean.nc", sim)
    for _ in range(10):
        sim.step(200)
        writer.write_timestep()
    writer.nc.close()
