import cupy as cp

from .stage import Stage, register


@register("window")
class Window(Stage):
    def run(self, x):
        rows = cp.hanning(x.shape[0]).astype(cp.float32)
        cp.multiply(x, rows[:, None], out=self.out)


@register("power")
class Power(Stage):
    """Log power spectrum, scaled to unit mean when `unit` is set."""

    def run(self, x):
        spec = cp.fft.fft(x, axis=0)
        cp.abs(spec, out=self.out)
        cp.log1p(self.out, out=self.out)

    def settle(self):
        if self.options.get("unit", True):
            self.out /= self.out.mean()
