"""Leapfrog N-body step captured into a CuPy graph; energies are evaluated between batches of replays."""
import cupy as cp

_accel = cp.RawKernel(r'''
extern "C" __global__
void accel(const float4* pos, float4* acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = pos[i]; float3 a = {0.f, 0.f, 0.f};
    for (int j = 0; j < n; ++j) {
        float4 q = pos[j];
        float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
        float inv = rsqrtf(dx*dx + dy*dy + dz*dz + 1e-4f);
        float s = q.w * inv * inv * inv;
        a.x += s * dx; a.y += s * dy; a.z += s * dz;
    }
    acc[i] = make_float4(a.x, a.y, a.z, 0.f);
}
''', 'accel')


class Cluster:
    def __init__(self, n, dt=1e-3):
        self.n, self.dt = n, dt
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.pos = cp.random.standard_normal((n, 4), dtype=cp.float32)
            self.pos[:, 3] = 1.0 / n
            self.vel = cp.zeros((n, 4), cp.float32)
            self._leap()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._leap()
            self.graph = self.stream.end_capture()

    def _forces(self):
        acc = cp.empty_like(self.pos)
        _accel(((self.n + 127) // 128,), (128,), (self.pos, acc, self.n))
        return acc

    def _leap(self):
        acc = self._forces()
        cp.multiply(acc, cp.float32(self.dt), out=acc)
        cp.add(self.vel, acc, out=self.vel)
        kick = self.vel * cp.float32(self.dt)
        cp.add(self.pos, kick, out=self.pos)

    def advance(self, steps):
        with self.stream:
            for _ in range(steps):
                self.graph.launch(self.stream)

    def kinetic(self):
        with self.stream:
            return self.vel * self.vel


def main():
    cluster = Cluster(16384)
    records = []
    for _ in range(20):
        cluster.advance(25)
        records.append(cluster.kinetic())
    cluster.stream.synchronize()
    print([float(r.sum()) for r in records])


if __name__ == "__main__":
    main()
