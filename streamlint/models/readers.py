"""Functions of libraries of the host that look at the memory they are given before they return.

They hand nothing to a device and queue nothing, so memory that a copy still fills is read too early by them.
What these libraries' classes are given they may keep a view of; methods of their objects read again. Some
write into memory that they are given.
"""

from __future__ import annotations

_OF_PYTHON = (
    # They work on the bytes of a buffer, or on numbers: https://docs.python.org/3/library/
    *("pickle", "marshal", "struct", "json", "base64", "binascii", "hashlib", "hmac", "math", "statistics"),
    *("zlib", "gzip", "bz2", "lzma", "csv"),
    # https://docs.python.org/3/library/io.html#io.RawIOBase.write: the caller may change it afterwards.
    *("open", "io", "socket", "mmap", "tempfile", "pathlib", "zipfile", "tarfile", "shelve", "subprocess"),
    *("os.write", "os.pwrite", "os.writev", "os.fdopen", "sys.stdout", "sys.stderr"),
    # ``Connection.send`` pickles before it returns; a ``Queue`` has a thread for that.
    *("multiprocessing.Pipe", "multiprocessing.connection"),
    # They compare, add or copy the elements.
    *("array", "bisect", "heapq", "codecs", "functools.reduce", "pprint"),
)
_OF_NUMBERS = (
    # Functions on NumPy's arrays: https://docs.scipy.org/doc/scipy/, https://scikit-learn.org/stable/api/,
    # https://scikit-image.org/docs/stable/api/
    *("scipy", "sklearn", "skimage", "pycocotools", "librosa"),
    # https://docs.opencv.org/4.x/: all but its module for CUDA, which has a table of its own.
    "cv2",
)
_OF_FILES = (
    # Images: https://pillow.readthedocs.io/, https://imageio.readthedocs.io; matplotlib copies what it shows.
    *("PIL", "imageio", "tifffile", "matplotlib", "torchvision.utils", "torchvision.io"),
    # Sound and volumes: https://python-soundfile.readthedocs.io/, https://nipy.org/nibabel/
    *("soundfile", "nibabel", "SimpleITK"),
    # Tables of tensors: https://huggingface.co/docs/safetensors/api/torch, https://docs.h5py.org/
    *("safetensors", "h5py", "joblib", "cloudpickle", "dill", "msgpack", "orjson"),
    # Compressed and hashed bytes
    *("lz4", "zstandard", "blosc", "xxhash"),
    # Messages and records, which are copied or sent: https://zguide.zeromq.org, https://requests.readthedocs.io,
    # https://redis.readthedocs.io, https://lmdb.readthedocs.io, https://pyav.org/docs/stable/api/video.html
    *("zmq", "requests", "redis", "lmdb", "av.VideoFrame", "av.AudioFrame"),
    # https://docs.pytorch.org/audio/stable/torchaudio.html#torchaudio.save
    "torchaudio.save",
    # Records of a run, which turn what they get into numbers or texts at once: https://docs.wandb.ai/,
    # https://pytorch.org/docs/stable/tensorboard.html
    *("wandb", "mlflow", "tensorboardX", "torch.utils.tensorboard"),
)
_AT_ONCE = frozenset((*_OF_PYTHON, *_OF_NUMBERS, *_OF_FILES))
_OTHERS = ("cv2.cuda", "cupyx.")
_VIEWS = frozenset({"PIL.Image.frombuffer"})
"""Of these, what gives a view: https://pillow.readthedocs.io/en/stable/reference/Image.html#PIL.Image.frombuffer"""

_COPYING_CLASSES = frozenset({"io.BytesIO", "array.array"})
"""Classes whose objects have a copy of what they are made of: https://docs.python.org/3/library/io.html#io.BytesIO"""

_FILLING_METHODS = {
    # https://docs.opencv.org/4.x/d8/dfe/classcv_1_1VideoCapture.html: ``ok, _ = capture.read(page)``
    "cv2.VideoCapture": frozenset({"read", "retrieve"}),
    # https://docs.h5py.org/en/stable/high/dataset.html#h5py.Dataset.read_direct
    "h5py.File": frozenset({"read_direct"}),
}
FILLING_METHODS = frozenset[str]().union(*_FILLING_METHODS.values())
"""All of them, whosever they are."""
_RESULTS = {
    # OpenCV names what its functions write: ``cv2.resize(frame, size, dst=page)``.
    "cv2": frozenset({"dst"}),
    # https://docs.scipy.org/doc/scipy/reference/ndimage.html
    "scipy": frozenset({"output"}),
    # https://python-soundfile.readthedocs.io/en/latest/#soundfile.read
    "soundfile": frozenset({"out"}),
}

_RESULT_PLACES = {
    # The same in its place, and pictures that are drawn on: ``cv2.resize(frame, size, page)``,
    # https://docs.opencv.org/4.x/d6/d6e/group__imgproc__draw.html
    **dict.fromkeys(
        ("add", "subtract", "multiply", "divide", "absdiff", "max", "min", "resize", "cvtColor"), 2
    ),
    **dict.fromkeys(("flip", "copyTo", "bitwise_and", "bitwise_or", "bitwise_xor", "LUT"), 2),
    **dict.fromkeys(("warpAffine", "warpPerspective"), 3),
    **dict.fromkeys(("normalize", "transpose", "bitwise_not", "convertScaleAbs"), 1),
    **dict.fromkeys(("rectangle", "putText", "line", "circle", "ellipse", "polylines", "arrowedLine"), 0),
    **dict.fromkeys(("fillPoly", "fillConvexPoly", "drawContours", "drawMarker"), 0),
}


def at_once(path: str) -> bool:
    """Whether a function, or what a function or class gave, is of such a library: ``cv2.imwrite``."""
    if path.startswith(_OTHERS) or path in _VIEWS:
        return False
    parts = path.split(".")
    return any(".".join(parts[:count]) in _AT_ONCE for count in range(1, min(len(parts), 3) + 1))


def copies_arguments(path: str) -> bool:
    """Whether an object of a class has a copy of what it is made of: ``io.BytesIO(page)``."""
    return path in _COPYING_CLASSES


def fills_arguments(giver: str, method: str) -> bool:
    """Whether a method of what a function or class gave writes into what it is given."""
    return method in _FILLING_METHODS.get(giver, ())


def results(path: str) -> frozenset[str]:
    """The keywords by which a function of such a library is told where to write its result."""
    return _RESULTS.get(path.partition(".")[0], frozenset()) if at_once(path) else frozenset()


def result_place(path: str) -> int | None:
    """Which argument it writes where the result is told by its place."""
    owner, _, name = path.rpartition(".")
    return _RESULT_PLACES.get(name) if owner == "cv2" else None
