"""Distance features for taxi rides: CuPy does the geometry, cuDF the grouping."""
import cudf
import cupy as cp
import numpy as np

haversine = cp.ElementwiseKernel(
    "float64 x, float64 y", "float64 d",
    "double a = sin(y / 2), b = sin(x / 2); d = 12742.0 * asin(sqrt(a * a + cos(y) * b * b))",
    "haversine")


class RideFeatures:
    def __init__(self, zones=64):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.zones = zones

    def distances(self, lon, lat):
        with self.stream:
            lon, lat = cp.asarray(lon), cp.asarray(lat)
            scale = np.pi / 180.0
            return haversine((lon[1] - lon[0]) * scale, (lat[1] - lat[0]) * scale)

    def by_zone(self, zone, lon, lat):
        frame = cudf.DataFrame({"zone": zone})
        distance = self.distances(lon, lat)
        frame["distance"] = cudf.Series(distance)
        means = frame.groupby("zone")["distance"].mean().sort_index()
        return means.to_pandas()


def make_batches(count=16, rows=2_000_000, zones=64):
    rng = np.random.default_rng(23)
    for _ in range(count):
        yield (rng.integers(0, zones, rows),
               rng.normal(-73.9, 0.1, (2, rows)),
               rng.normal(40.7, 0.1, (2, rows)))


def main():
    features = RideFeatures()
    for zone, lon, lat in make_batches():
        print(features.by_zone(zone, lon, lat).describe())


if __name__ == "__main__":
    main()
