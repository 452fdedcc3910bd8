"""Runs unmodified clients against dsv3-serve and prints a table: run.py ARTIFACT [--problems N] [--stories N] [--only NAME] [--vllm PROGRAM].

Its Python is the environment with openai, lm-eval and guidellm (scripts/compat.sh makes it). vLLM is too large to install by the way:
`vllm bench serve` runs where --vllm names the program."""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]

import contract  # noqa: E402
import prepare  # noqa: E402
import served  # noqa: E402
import tools  # noqa: E402

# No hub is asked: the tokenizer and the tasks are local.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
# dsv3-eval sums what float32 programs give; the API gives the same numbers as decimal text.
BITS_TOLERANCE = 1e-4


def client(command, timeout=1800):
    program = os.path.join(os.path.dirname(sys.executable), command[0])
    done = subprocess.run([program, *map(str, command[1:])], env={**os.environ, **OFFLINE}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout)
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
    return done


class Run:
    def __init__(self, server, artifact, folder):
        self.server, self.artifact, self.folder = server, artifact, folder
        self.rows = []
        self.model = server.ask("GET", "/v1/models")[2]["data"][0]["id"]

    def row(self, what, expected, got, ok):
        self.rows.append((what, str(expected), str(got), "ok" if ok else "FAILED"))
        print("  ".join(self.rows[-1]), flush=True)

    def measure(self, flag, file, key):
        done = tools.succeed("dsv3-eval", self.artifact, "--json", flag, os.path.join(self.folder, file), timeout=1800)
        return json.loads(done.stdout)[key]

    def harness(self, kind, path, task, *more):
        """lm-evaluation-harness's results of a task, or None when it failed."""
        out = tempfile.mkdtemp(dir=self.folder)
        arguments = {"model": self.model, "base_url": self.server.url + path, "tokenizer": contract.TINY, "tokenizer_backend": "huggingface",
                     "num_concurrent": 8, "max_length": 1024, **dict(more)}
        done = client(["lm_eval", "run", "--model", kind, "--model_args", ",".join(f"{k}={v}" for k, v in arguments.items()), "--tasks",
                       os.path.join(self.folder, task + ".yaml"), "--output_path", out] + (["--apply_chat_template"] if task == "problems" else []))
        files = glob.glob(os.path.join(out, "**", "results_*.json"), recursive=True)
        if done.returncode or not files:
            return None
        with open(files[0], encoding="utf-8") as f:
            return json.load(f)["results"]["dsv3_" + task]

    def openai(self):
        done = client(["python", os.path.join(HERE, "openai_client.py"), self.server.url])
        lines = [line for line in done.stdout.splitlines() if line.startswith(("ok", "FAILED"))]
        for line in lines:
            print("    " + line)
        good = sum(line.startswith("ok") for line in lines)
        self.row("openai: steps", len(lines), good, lines and good == len(lines) and done.returncode == 0)

    def lm_eval(self):
        m = self.measure("--problems", "problems.jsonl", "problems")
        expected = m["correct"] / m["problems"]
        for kind, path in (("local-completions", "/v1/completions"), ("local-chat-completions", "/v1/chat/completions")):
            r = self.harness(kind, path, "problems")
            got = r and r["exact_match,final"]
            self.row(f"lm-eval {kind}: exact match of {m['problems']} problems", expected, got, got is not None and abs(got - expected) < 1e-9)
        m = self.measure("--stories", "stories.jsonl", "stories")
        r = self.harness("local-completions", "/v1/completions", "stories", ("custom_prefix_token_id", 0))
        expected, got = m["bits_per_byte"], r and r["bits_per_byte,none"]
        self.row("lm-eval local-completions: bits per byte of stories", f"{expected:.6f}", got and f"{got:.6f}",
                 got is not None and abs(got - expected) < BITS_TOLERANCE * expected)

    def guidellm(self):
        for form in ("/v1/chat/completions", "/v1/completions"):
            out = os.path.join(self.folder, "guide.json")
            done = client(["guidellm", "run", "--backend", f"kind=openai_http,target={self.server.url},request_format={form}", "--profile",
                           "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=24", "--data",
                           "kind=synthetic_text,prompt_tokens=64,output_tokens=16", "--tokenizer", f"kind=huggingface_auto,model={contract.TINY}",
                           "--output", f"kind=json,path={out}", "--disable-progress"])
            if done.returncode:
                self.row(f"guidellm {form}: requests", 24, f"exit code {done.returncode}", False)
                continue
            with open(out, encoding="utf-8") as f:
                metrics = json.load(f)["benchmarks"][0]["metrics"]
            totals = metrics["request_totals"]
            tokens = metrics["output_token_count"]["successful"]["mean"]
            self.row(f"guidellm {form}: requests, tokens of each", "24, 16", f"{totals['successful']}, {tokens:g}",
                     totals["successful"] == 24 and totals["errored"] == 0 and tokens == 16)

    def vllm(self, program):
        for backend, endpoint in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")):
            out = os.path.join(self.folder, "vllm.json")
            done = subprocess.run([program, "bench", "serve", "--backend", backend, "--endpoint", endpoint, "--base-url", self.server.url, "--model",
                                   self.model, "--tokenizer", contract.TINY, "--dataset-name", "random", "--random-input-len", "64",
                                   "--random-output-len", "16", "--num-prompts", "24", "--max-concurrency", "4", "--ignore-eos", "--disable-tqdm",
                                   "--save-result", "--result-filename", out], env={**os.environ, **OFFLINE}, capture_output=True, text=True,
                                  cwd=self.folder, timeout=600)
            if done.returncode:
                sys.stderr.write(done.stderr[-4000:])
                self.row(f"vllm bench serve {backend}: requests, tokens", "24, 384", f"exit code {done.returncode}", False)
                continue
            with open(out, encoding="utf-8") as f:
                got = json.load(f)
            self.row(f"vllm bench serve {backend}: requests, tokens", "24, 384", f"{got['completed']}, {got['total_output_tokens']}",
                     got["completed"] == 24 and got["total_output_tokens"] == 384)

    def bench(self):
        done = tools.run("dsv3-bench", "serve", "--port", self.server.port, "--num-prompts=24", "--max-concurrency=4", "--random-input-len=64",
                         "--random-output-len=16", "--disable-tqdm")
        lines = dict(line.split(":", 1) for line in done.stdout.decode().splitlines() if ":" in line)
        got = f"{lines.get('Successful requests', '').strip()}, {lines.get('Total generated tokens', '').strip()}"
        self.row("dsv3-bench serve: requests, tokens", "24, 384", got, got == "24, 384")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact")
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--stories", type=int, default=32)
    parser.add_argument("--only", choices=["openai", "lm_eval", "guidellm", "vllm", "bench"])
    parser.add_argument("--vllm", help="the program of an environment with vLLM")
    a = parser.parse_args()
    if a.only == "vllm" and not a.vllm:
        parser.error("--only vllm: expected --vllm PROGRAM too")
    with tempfile.TemporaryDirectory(prefix="dsv3-compat-") as folder, served.Served(a.artifact) as server:
        prepare.prepare(folder, a.problems, a.stories)
        run = Run(server, a.artifact, folder)
        for name in ("openai", "lm_eval", "guidellm", "vllm", "bench"):
            if a.only in (None, name) and (name != "vllm" or a.vllm):
                start = time.monotonic()
                getattr(run, name)(*([a.vllm] if name == "vllm" else []))
                print(f"  ({name}: {time.monotonic() - start:.0f} s)", flush=True)
        server.wait_idle()
    widths = [max(len(r[i]) for r in run.rows) for i in range(4)]
    print()
    for r in [("client", "expected", "got", "")] + run.rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())
    return any(r[3] != "ok" for r in run.rows)


if __name__ == "__main__":
    sys.exit(main())
