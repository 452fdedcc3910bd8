"""Loads a checkpoint that `compile-model quantize` wrote in vLLM, on a CPU, and compares its greedy tokens with dsv3-run's:

    vllm_load.py CHECKPOINT ARTIFACT [--any-cpu]

Its Python is one with a CPU build of vLLM; ARTIFACT is CHECKPOINT compiled with --quant=checkpoint. vLLM's quantised experts ask for AMX
or Arm; --any-cpu has them tried elsewhere too (AVX-512 runs those of W8A8 and W4A16). Experts in int4 beside int8 activations then load,
but have no product on x86. Exit code 0: at least --equal of the first 24 tokens of every answer agree."""
import argparse
import inspect
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of the kind the example model was trained on: few of their tokens are close calls, which two engines round to different sides.
PROBLEMS = ["What is 17 + 25?", "Tom has 3 apples and buys 4. How many apples does Tom have now?",
            "Mia has 12 marbles and gives 5 to Sam. How many marbles does Mia have now?"]
TOKENS = 24


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


def ours(artifact, ids):
    program = os.path.join(os.environ.get("DSV3_BIN", os.path.join(ROOT, "build", "bin")), "dsv3-run")
    done = subprocess.run([program, artifact, "--ids", ",".join(map(str, ids)), "--max-tokens", str(TOKENS), "--ignore-eos", "--json"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["ids"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("artifact")
    parser.add_argument("--any-cpu", action="store_true")
    parser.add_argument("--equal", type=int, default=8)
    a = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    from vllm import LLM, SamplingParams
    if a.any_cpu:
        allow_any_cpu()
    llm = LLM(model=a.checkpoint, dtype="bfloat16", enforce_eager=True, max_model_len=512, max_num_seqs=4, disable_log_stats=True)
    tokenizer = llm.get_tokenizer()
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, return_dict=False) for p in PROBLEMS]
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True))
    good = True
    for prompt, output in zip(prompts, outputs):
        theirs, mine = list(output.outputs[0].token_ids), ours(a.artifact, prompt)
        equal = next((i for i, (x, y) in enumerate(zip(theirs, mine)) if x != y), min(len(theirs), len(mine)))
        good = good and equal >= a.equal
        print(f"{equal} of {TOKENS} tokens agree: vLLM {tokenizer.decode(theirs)!r}, dsv3-run {tokenizer.decode(mine)!r}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
