"""PyTorch: which function each layer of ``torch.nn`` computes by, and what layers own."""

LAYER_PARTS = ("weight", "bias")
"""The parameters of layers."""

_BY_DIMENSION = (
    ("Conv", "conv"),
    ("ConvTranspose", "conv_transpose"),
    ("AvgPool", "avg_pool"),
    ("MaxPool", "max_pool"),
    ("AdaptiveAvgPool", "adaptive_avg_pool"),
    ("AdaptiveMaxPool", "adaptive_max_pool"),
)

LAYERS = {
    **{f"{name}{n}d": f"{function}{n}d" for name, function in _BY_DIMENSION for n in (1, 2, 3)},
    **{f"{name}Norm{n}d": f"{name.lower()}_norm" for name in ("Batch", "Instance") for n in (1, 2, 3)},
    "Linear": "linear",
    "Bilinear": "bilinear",
    "Embedding": "embedding",
    "EmbeddingBag": "embedding_bag",
    "LayerNorm": "layer_norm",
    "GroupNorm": "group_norm",
    "RMSNorm": "rms_norm",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "LeakyReLU": "leaky_relu",
    "ELU": "elu",
    "SELU": "selu",
    "CELU": "celu",
    "Hardtanh": "hardtanh",
    "Hardswish": "hardswish",
    "Hardsigmoid": "hardsigmoid",
    "SiLU": "silu",
    "Mish": "mish",
    "GELU": "gelu",
    "GLU": "glu",
    "PReLU": "prelu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "LogSigmoid": "logsigmoid",
    "Softplus": "softplus",
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "Upsample": "interpolate",
    "PixelShuffle": "pixel_shuffle",
    "TransformerEncoderLayer": "transformer_encoder_layer",
    "TransformerDecoderLayer": "transformer_decoder_layer",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "KLDivLoss": "kl_div",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
"""Classes of ``torch.nn`` whose objects compute by one function of ``torch.nn.functional``, which reads its
operands and makes a new tensor (https://docs.pytorch.org/docs/stable/nn.html), or by several of which the
last one does: a layer of a transformer ends with an addition or a norm. Not among them are ``Dropout``
and ``Identity``, which may return what they are given, and layers that return several tensors."""

OF_LAYERS = frozenset({"Sequential", LAYERS["TransformerEncoderLayer"], LAYERS["TransformerDecoderLayer"]})
"""What modules compute that are made of others, whose parameters they list."""

OF_NO_PARTS = frozenset(name for name, function in LAYERS.items() if function not in OF_LAYERS) | frozenset(
    "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d Flatten Identity Module Unflatten".split()
)
"""Classes whose objects hold no other modules, but what heirs put there."""

WITH_PARAMETERS = OF_LAYERS | {
    function
    for name, function in LAYERS.items()
    if name.startswith("Conv") or name.endswith("Linear") or "Embedding" in name or "Norm" in name
}
"""What layers compute that have parameters, as long as they are not told to have none."""

MAY_BE_IN_PLACE = frozenset(
    "ReLU ReLU6 LeakyReLU ELU SELU CELU Hardtanh Hardswish Hardsigmoid SiLU Mish".split()
)
"""Those with a parameter ``inplace`` ..."""
IN_PLACE_IF_ASKED = frozenset(LAYERS[name] for name in MAY_BE_IN_PLACE if name in LAYERS)
"""... and the functions that compute them, which have one, too."""
