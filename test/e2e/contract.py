"""What the end to end tests hold the product to: exit codes, tolerances, names. One place for all of them."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("DSV3_BIN", os.path.join(ROOT, "build", "bin"))
TINY = os.path.join(ROOT, "examples", "dsv3-tiny")
GOLDENS = os.path.join(ROOT, "test", "goldens", "goldens_fp8")
DATA = os.path.join(ROOT, "test", "data")

# Exit codes of every tool.
OK, USAGE, BAD_CHECKPOINT, UNSUPPORTED, DOES_NOT_FIT, INTERNAL = 0, 2, 3, 4, 5, 6

# float32 against the goldens.
LOGIT_TOLERANCE = 2e-4              # absolute, on logits
STATE_TOLERANCE = 2e-6              # times the largest value of the tensor
ODD_STATE_TOLERANCE = 2e-5          # random weights amplify rounding; the odd goldens' own noise is up to 1e-5

# bf16 against our own float32 artifact.
BF16_MEAN_KL = 1e-3
BF16_GREEDY_AGREEMENT = 0.985

# Evaluation set.
PROBLEMS_RIGHT = {"f32": 500, "bf16": 495}
NLL_TOLERANCE = {"f32": 1e-3, "bf16": 5e-3}     # relative
STORIES_NLL = 0.30837
PROSE_PERPLEXITY = {64: 22.693, 857: 22.234}    # by number of excerpts

PROMPTS = ("empty", "short", "arith", "story", "unicode", "prose", "long")
GREEDY_TOKENS = 64

# What the tests compile: room for the longest request, and for six requests at once.
MAX_MODEL_LEN = 2048
MAX_BATCH = 8

# Golden state names -> tap names (sites of the imported program).
_TAPS = {"input_norm": "input_norm", "q": "q_b", "kv_a": "kv_a", "kv_b": "kv_b", "attn_out": "o",
         "router_logits": "router", "topk_ids": "route.ids", "topk_weights": "route.weights", "mlp_out": "mlp",
         "out": "out"}


# Regular expression of all of them, for --taps.
TAPS = r"embed|final_norm|l\d+\.(" + "|".join(re.escape(t) for t in _TAPS.values()) + ")"


def tap_of(state):
    """"layers.3.attn_out" -> "l3.o"; None for a name that is not a state of the model."""
    if state in ("embed", "final_norm"):
        return state
    m = re.fullmatch(r"layers\.(\d+)\.(\w+)", state)
    return f"l{m[1]}.{_TAPS[m[2]]}" if m else None
