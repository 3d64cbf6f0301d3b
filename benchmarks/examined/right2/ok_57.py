"""Feature columns computed with CuPy between cuDF steps."""
import cudf
import cupy as cp

haversine = cp.ElementwiseKernel(
    "float64 lat1, float64 lon1, float64 lat2, float64 lon2",
    "float64 km",
    """
    double p = 0.017453292519943295;
    double a = 0.5 - cos((lat2 - lat1) * p) / 2
             + cos(lat1 * p) * cos(lat2 * p) * (1 - cos((lon2 - lon1) * p)) / 2;
    km = 12742.0 * asin(sqrt(a));
    """,
    "haversine",
)

bearing = cp.ElementwiseKernel(
    "float64 lat1, float64 lon1, float64 lat2, float64 lon2",
    "float64 deg",
    """
    double p = 0.017453292519943295;
    double y = sin((lon2 - lon1) * p) * cos(lat2 * p);
    double x = cos(lat1 * p) * sin(lat2 * p)
             - sin(lat1 * p) * cos(lat2 * p) * cos((lon2 - lon1) * p);
    deg = atan2(y, x) / p;
    """,
    "bearing",
)


class TripFeatures:
    def __init__(self):
        self.distance_stream = cp.cuda.Stream()
        self.bearing_stream = cp.cuda.Stream()

    def transform(self, trips):
        points = [trips[c].values for c in ("lat1", "lon1", "lat2", "lon2")]
        km = cp.empty(len(trips), dtype=cp.float64)
        deg = cp.empty(len(trips), dtype=cp.float64)
        with self.distance_stream:
            haversine(*points, km)
        with self.bearing_stream:
            bearing(*points, deg)
        trips = trips.assign(km=cudf.Series(km), deg=cudf.Series(deg))
        return trips[trips["km"] < 200.0]


def main(path="trips.parquet"):
    features = TripFeatures()
    trips = cudf.read_parquet(path).astype("float64")
    near = features.transform(trips)
    near["sector"] = (near["deg"] / 45.0).astype("int32")
    return near.groupby("sector")["km"].mean().to_pandas()


if __name__ == "__main__":
    print(main())
