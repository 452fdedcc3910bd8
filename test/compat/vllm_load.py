"""Loads a checkpoint that `compile-model quantize` wrote in vLLM, on a CPU, and compares it with its artifact: nats per token of the
first stories of the evaluation set, and greedy answers, which are printed.

    vllm_load.py CHECKPOINT ARTIFACT [--any-cpu]

Its Python is one with a CPU build of vLLM; ARTIFACT is CHECKPOINT compiled with --quant=checkpoint. vLLM's quantised experts ask for AMX
or Arm; --any-cpu has them tried elsewhere too (AVX-512 runs those of W8A8 and W4A16). Experts in int4 beside int8 activations then load,
but have no product on x86. Exit code 0: the stories differ by less than --within. vLLM's int4 experts on x86 round rows to int8 on the
way, which alone is worth 1.2%; a wrong scale or order of codes costs nats."""
import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Two engines round close calls to different sides, so answers may go on in other words.
PROBLEMS = ["What is 17 + 25?", "Tom has 3 apples and buys 4. How many apples does Tom have now?",
            "Mia has 12 marbles and gives 5 to Sam. How many marbles does Mia have now?"]
TOKENS, STORIES = 24, 16


def allow_any_cpu():
    from vllm.model_executor.layers.fused_moe.experts import cpu_int4_moe, cpu_moe
    for module in (cpu_moe, cpu_int4_moe):
        for name, experts in inspect.getmembers(module, inspect.isclass):
            if not name.startswith("CPUExperts"):
                continue
            experts._supports_current_device = staticmethod(lambda: True)
            experts._supports_routing_method = staticmethod(lambda *arguments: True)  # these take the router's choice as it comes
            if module is cpu_int4_moe:
                experts.is_supported_config = staticmethod(lambda *arguments: (True, None))


def ours(program, artifact, *flags):
    path = os.path.join(os.environ.get("DSV3_BIN", os.path.join(ROOT, "build", "bin")), program)
    return json.loads(subprocess.run([path, artifact, *flags, "--json"], stdout=subprocess.PIPE, check=True).stdout)


def stories(llm, tokenizer, artifact):
    """Nats per token of vLLM and of the artifact: begin token in front, 511 ids at most, as dsv3-eval takes them."""
    from vllm import SamplingParams
    with open(os.path.join(ROOT, "test", "data", "stories_heldout.jsonl"), encoding="utf-8") as f:
        lines = [next(f) for _ in range(STORIES)]
    ids = [([tokenizer.bos_token_id] + tokenizer.encode(json.loads(line)["text"], add_special_tokens=False))[:511] for line in lines]
    scored = llm.generate([{"prompt_token_ids": i} for i in ids], SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0))
    logprobs = [at[i].logprob for s in scored for at, i in zip(s.prompt_logprobs[1:], s.prompt_token_ids[1:])]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        f.writelines(lines)
        f.flush()
        mine = ours("dsv3-eval", artifact, "--stories", f.name)["stories"]
    assert mine["tokens"] == len(logprobs), (mine, len(logprobs))
    return -sum(logprobs) / len(logprobs), mine["nll"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("artifact")
    parser.add_argument("--any-cpu", action="store_true")
    parser.add_argument("--within", type=float, default=0.02)
    a = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    from vllm import LLM, SamplingParams
    if a.any_cpu:
        allow_any_cpu()
    llm = LLM(model=a.checkpoint, dtype="bfloat16", enforce_eager=True, max_model_len=512, max_num_seqs=4, disable_log_stats=True)
    tokenizer = llm.get_tokenizer()
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, return_dict=False) for p in PROBLEMS]
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True))
    for prompt, output in zip(prompts, outputs):
        theirs = list(output.outputs[0].token_ids)
        mine = ours("dsv3-run", a.artifact, "--ids", ",".join(map(str, prompt)), "--max-tokens", str(TOKENS), "--ignore-eos")["ids"]
        equal = next((i for i, (x, y) in enumerate(zip(theirs, mine)) if x != y), TOKENS)
        print(f"{equal} of {TOKENS} tokens agree: vLLM {tokenizer.decode(theirs)!r}, dsv3-run {tokenizer.decode(mine)!r}")
    theirs, mine = stories(llm, tokenizer, a.artifact)
    print(f"nats per token of {STORIES} stories: vLLM {theirs:.5f}, dsv3-eval {mine:.5f}")
    return not abs(theirs / mine - 1) < a.within


if __name__ == "__main__":
    sys.exit(main())
