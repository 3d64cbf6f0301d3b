"""Acoustic wave on a plate, three time levels, absorbing frame on its own stream."""
import cupy as cp

_leap = cp.RawKernel(r'''
extern "C" __global__
void leap(const float* prev, const float* cur, float* nxt, int nx, int row0, int row1, float c2, float damp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = row0 + blockIdx.y;
    if (i < 1 || i >= nx - 1 || j >= row1) return;
    int p = j * nx + i;
    float lap = cur[p-1] + cur[p+1] + cur[p-nx] + cur[p+nx] - 4.0f * cur[p];
    nxt[p] = damp * (2.0f * cur[p] - prev[p] + c2 * lap);
}
''', 'leap')


class PlateWave:
    FRAME = 16

    def __init__(self, ny, nx, c2=0.25):
        self.ny, self.nx, self.c2 = ny, nx, cp.float32(c2)
        self.p = [cp.zeros((ny, nx), cp.float32) for _ in range(3)]
        self.p[1][ny // 2, nx // 2] = 1.0
        self.frame_stream = cp.cuda.Stream(non_blocking=True)
        self.inner_stream = cp.cuda.Stream(non_blocking=True)
        self.frame_ready = cp.cuda.Event(disable_timing=True)
        self.inner_ready = cp.cuda.Event(disable_timing=True)
        self.t = 0
        cp.cuda.Device().synchronize()

    def _launch(self, lo, hi, damp):
        prev, cur, nxt = (self.p[(self.t + d) % 3] for d in range(3))
        _leap(((self.nx + 127) // 128, hi - lo), (128,),
              (prev, cur, nxt, self.nx, lo, hi, self.c2, cp.float32(damp)))

    def advance(self):
        with self.frame_stream as s:
            s.wait_event(self.inner_ready)
            self._launch(1, self.FRAME, 0.97)
            self._launch(self.ny - self.FRAME, self.ny - 1, 0.97)
            self.frame_ready.record(s)
        with self.inner_stream as s:
            s.wait_event(self.inner_ready)
            self._launch(self.FRAME, self.ny - self.FRAME, 1.0)
            self.inner_ready.record(s)
        self.t += 1

    def snapshot(self):
        self.frame_stream.synchronize()
        self.inner_stream.synchronize()
        return self.p[(self.t + 1) % 3].get()


def main():
    plate = PlateWave(2048, 2048)
    shots = []
    for n in range(3000):
        plate.advance()
        if n % 1000 == 999:
            shots.append(plate.snapshot())
    print(len(shots), abs(shots[-1]).max())


if __name__ == "__main__":
    main()
