"""A request alone, in pieces and among others."""
import tools

CUDA = "--device=cuda"


def check(artifact, ids):
    """`ids`, some 900, give the same logits, tokens and log probabilities whichever way they are run."""
    alone, tensors, _ = tools.forward(artifact, ids, CUDA, max_tokens=8)
    for chunk in (64, 100):
        part, other, _ = tools.forward(artifact, ids, f"--prefill-chunk={chunk}", CUDA, max_tokens=8)
        tools.assert_same_bits(other["logits"], tensors["logits"], f"chunks of {chunk}")
        assert part["ids"] == alone["ids"] and part["logprobs"] == alone["logprobs"], chunk
    requests = [{"ids": ids[:n], "max_tokens": 8} for n in (1, 64, 65, 700)] + [{"ids": ids, "max_tokens": 8}]
    results, logits = tools.batch(artifact, requests, CUDA)
    tools.assert_same_bits(logits["logits.4"], tensors["logits"], "among others")
    assert results[4]["ids"] == alone["ids"] and results[4]["logprobs"] == alone["logprobs"]
