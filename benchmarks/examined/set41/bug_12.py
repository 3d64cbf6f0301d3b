"""Two-stage radar chain: windowing on one stream, power accumulation on another."""
import cupy as cp
import numpy as np

window_kernel = cp.RawKernel(r"""
extern "C" __global__
void apply_window(const float2* in, const float* w, float2* out, int n, int m) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        float k = w[i % m];
        out[i].x = in[i].x * k;
        out[i].y = in[i].y * k;
    }
}
""", "apply_window")

power_kernel = cp.RawKernel(r"""
extern "C" __global__
void add_power(const float2* in, float* acc, int n, int m) {
    int j = blockDim.x * blockIdx.x + threadIdx.x;
    if (j >= m) return;
    float s = 0.f;
    for (int i = j; i < n; i += m) s += in[i].x * in[i].x + in[i].y * in[i].y;
    acc[j] += s;
}
""", "add_power")


class RadarChain:
    def __init__(self, pulses, samples):
        self.n, self.m = pulses * samples, samples
        self.front = cp.cuda.Stream(non_blocking=True)
        self.back = cp.cuda.Stream(non_blocking=True)
        with self.front:
            self.window = cp.asarray(np.hanning(samples).astype(np.float32))
        with self.back:
            self.acc = cp.zeros(samples, dtype=cp.float32)
        self.front.synchronize()
        self.back.synchronize()

    def _blocks(self, count):
        return ((count + 255) // 256,)

    def _window(self, cpi):
        with self.front:
            shaped = cp.empty(self.n, dtype=cp.complex64)
            window_kernel(
                self._blocks(self.n), (256,),
                (cpi, self.window, shaped, np.int32(self.n), np.int32(self.m)),
            )
            ready = self.front.record()
        return shaped, ready

    def _accumulate(self, shaped, ready):
        self.back.wait_event(ready)
        with self.back:
            power_kernel(
                self._blocks(self.m), (256,),
                (shaped, self.acc, np.int32(self.n), np.int32(self.m)),
            )

    def process(self, cpi):
        shaped, ready = self._window(cpi)
        self._accumulate(shaped, ready)

    def finish(self):
        self.back.synchronize()
        with self.back:
            return cp.asnumpy(self.acc)


def synth(pulses, samples, count):
    rng = np.random.default_rng(5)
    cubes = []
    for _ in range(count):
        real = rng.standard_normal(pulses * samples)
        imag = rng.standard_normal(pulses * samples)
        cubes.append(cp.asarray((real + 1j * imag).astype(np.complex64)))
    cp.cuda.Device().synchronize()
    return cubes


def main():
    pulses, samples = 256, 4096
    cubes = synth(pulses, samples, 8)
    chain = RadarChain(pulses, samples)
    for rep in range(20):
        for cpi in cubes:
            chain.process(cpi)
    print(chain.finish()[:8])


if __name__ == "__main__":
    main()
