"""dsv3-bench serve against a server with known delays. No GPU, no artifact."""
import json
import socket
import xml.dom.minidom

import pytest

import contract
import fake_server
import tools

# What a busy machine may add to a delay.
SLACK_MS = 60

ALWAYS = """duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput
    total_token_throughput max_output_tokens_per_s max_concurrent_requests date endpoint_type backend label model_id tokenizer_id
    num_prompts request_rate burstiness max_concurrency""".split()
DETAILED = "input_lens output_lens ttfts itls start_times generated_texts errors latencies queue_times".split()


def bench(tmp_path, plan, *flags, code=0):
    """What the result file says, and stdout."""
    path = tmp_path / "result.json"
    with fake_server.Server(plan) as server:
        done = tools.run("dsv3-bench", "serve", "--port", server.port, "--save-result", "--save-detailed", "--disable-tqdm",
                         "--result-dir", tmp_path, "--result-filename", "result.json", *flags)
    assert done.returncode == code, tools.said(done)
    return json.loads(path.read_text()), done.stdout.decode()


def near(value, expected):
    return expected - 1 <= value <= expected + SLACK_MS


def test_latencies_are_the_servers(tmp_path):
    r, text = bench(tmp_path, fake_server.Plan(first=0.2, gap=0.03), "--num-prompts=6", "--max-concurrency=2", "--random-input-len=20",
                    "--random-output-len=11", "--percentile-metrics=ttft,tpot,itl,e2el,client_queue_time", "--metric-percentiles=50,90,99.5")
    assert set(ALWAYS + DETAILED) <= set(r), sorted(set(ALWAYS + DETAILED) - set(r))
    assert (r["completed"], r["failed"], r["total_input_tokens"], r["total_output_tokens"]) == (6, 0, 120, 66)
    assert near(r["mean_ttft_ms"], 200) and near(r["median_ttft_ms"], 200) and near(r["p99.5_ttft_ms"], 200)
    assert near(r["mean_itl_ms"], 30) and near(r["mean_tpot_ms"], 30) and near(r["p90_tpot_ms"], 30)
    assert 499 < r["median_e2el_ms"] < 500 + 4 * SLACK_MS  # ten gaps: ten times what the machine adds
    assert r["p50_itl_ms"] == pytest.approx(r["median_itl_ms"])
    # Two at a time: three rounds, and the last two waited for two of them.
    assert 1.5 < r["duration"] < 2.5
    assert r["request_throughput"] == pytest.approx(6 / r["duration"])
    assert r["output_throughput"] == pytest.approx(66 / r["duration"])
    assert r["total_token_throughput"] == pytest.approx(186 / r["duration"])
    assert r["max_concurrent_requests"] == 2 and r["max_concurrency"] == 2
    assert sorted(round(q, 1) > 0.4 for q in r["queue_times"]) == [False] * 2 + [True] * 4
    assert r["generated_texts"] == ["é " * 11] * 6 and all(len(i) == 10 for i in r["itls"])
    assert r["request_goodput"] is None and r["model_id"] == "fake-model" and r["request_rate"] == "inf"
    for line in ("Successful requests:", "Mean TTFT (ms):", "P99.5 TPOT (ms):", "Median ITL (ms):"):
        assert line in text


def test_concurrency_is_never_exceeded(tmp_path):
    plan = fake_server.Plan(first=0.02, gap=0.002)
    bench(tmp_path, plan, "--num-prompts=40", "--max-concurrency=5", "--random-input-len=5", "--random-output-len=4")
    assert plan.peak == 5
    plan = fake_server.Plan(first=0.5, gap=0.001)
    bench(tmp_path, plan, "--num-prompts=30", "--random-input-len=5", "--random-output-len=2")
    assert plan.peak == 30  # without a bound all run at once


def test_request_rate_and_burstiness(tmp_path):
    for flags in ([], ["--burstiness=0.5"], ["--burstiness=inf"]):
        r, _ = bench(tmp_path, fake_server.Plan(first=0.001, gap=0.001), "--num-prompts=40", "--request-rate=40", "--random-input-len=5",
                     "--random-output-len=2", *flags)
        starts = r["start_times"]
        gaps = [b - a for a, b in zip(starts, starts[1:])]
        assert starts == sorted(starts) and abs(starts[-1] - 1.0) < 0.1 and r["request_rate"] == 40
        mean = sum(gaps) / len(gaps)
        spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5 / mean
        # Coefficient of variation of a gamma distribution of shape k: 1/sqrt(k).
        assert spread < 0.35 if "--burstiness=inf" in flags else spread > 0.5, spread


def test_ramp_up(tmp_path):
    r, _ = bench(tmp_path, fake_server.Plan(first=0.001, gap=0.001), "--num-prompts=40", "--ramp-up-strategy=linear", "--ramp-up-start-rps=10",
                 "--ramp-up-end-rps=100", "--burstiness=inf", "--random-input-len=5", "--random-output-len=1")
    starts = r["start_times"]
    assert starts[10] - starts[0] > 2 * (starts[39] - starts[29])


def test_drawn_prompts(tmp_path):
    flags = ["--num-prompts=20", "--random-input-len=40", "--random-output-len=10", "--random-range-ratio=0.5", "--random-prefix-len=16",
             "--seed=7", "--temperature=0", "--top-k=5", '--extra-body={"priority": 3}', "--header", "x-a=b"]
    plans = [fake_server.Plan(first=0, gap=0) for _ in range(3)]
    runs = [bench(tmp_path, plan, *flags, "--max-concurrency=1")[0] for plan in plans[:2]]
    bench(tmp_path, plans[2], *[f.replace("seed=7", "seed=8") for f in flags], "--max-concurrency=1")
    prompts = [[b["prompt"] for b in p.bodies] for p in plans]
    assert prompts[0] == prompts[1] != prompts[2]  # the seed decides
    assert len({tuple(p[:16]) for p in prompts[0]}) == 1 and len({tuple(p[16:26]) for p in prompts[0]}) == 20
    lengths = [len(p) - 16 for p in prompts[0]]
    assert min(lengths) >= 20 and max(lengths) <= 60 and len(set(lengths)) > 5
    outputs = [b["max_tokens"] for b in plans[0].bodies]
    assert min(outputs) >= 5 and max(outputs) <= 15 and runs[0]["output_lens"] == outputs
    assert runs[0]["input_lens"] == [len(p) for p in prompts[0]]
    body = plans[0].bodies[0]
    assert body["ignore_eos"] is True and body["stream"] is True and body["stream_options"] == {"include_usage": True}
    assert (body["temperature"], body["top_k"], body["priority"], body["model"]) == (0, 5, 3, "fake-model")
    assert plans[0].headers[0]["x-a"] == "b"


def test_prefix_repetition(tmp_path):
    plan = fake_server.Plan(first=0, gap=0)
    bench(tmp_path, plan, "--dataset-name=prefix_repetition", "--num-prompts=30", "--prefix-repetition-num-prefixes=3",
          "--prefix-repetition-prefix-len=12", "--prefix-repetition-suffix-len=8", "--prefix-repetition-output-len=2")
    assert len({tuple(b["prompt"][:12]) for b in plan.bodies}) == 3
    assert len({tuple(b["prompt"][12:]) for b in plan.bodies}) == 30 and all(len(b["prompt"]) == 20 for b in plan.bodies)


def test_chat_counts_from_the_first_text(tmp_path):
    plan = fake_server.Plan(first=0.15, gap=0.005)
    r, _ = bench(tmp_path, plan, "--backend=openai-chat", "--num-prompts=3", "--random-input-len=6", "--random-output-len=4")
    assert plan.bodies[0]["messages"][0]["role"] == "user" and plan.bodies[0]["max_completion_tokens"] == 4
    assert near(r["mean_ttft_ms"], 150)  # not at the chunk that only names the role
    assert r["generated_texts"][0] == "é " * 4 and all(len(i) == 3 for i in r["itls"])


def test_goodput(tmp_path):
    plan = fake_server.Plan(first=0.1, gap=0.02)
    flags = ["--num-prompts=4", "--max-concurrency=4", "--random-input-len=5", "--random-output-len=5"]
    r, _ = bench(tmp_path, plan, *flags, "--goodput", "ttft:2000", "e2el:5000")
    assert r["request_goodput"] == pytest.approx(r["request_throughput"])
    r, _ = bench(tmp_path, plan, *flags, "--goodput", "ttft:2000", "tpot:10")
    assert r["request_goodput"] == 0


def test_failures_are_counted(tmp_path):
    r, _ = bench(tmp_path, fake_server.Plan(first=0, gap=0, fail_every=4), "--num-prompts=20", "--max-concurrency=3", "--random-input-len=5",
                 "--random-output-len=3")
    assert (r["completed"], r["failed"]) == (15, 5)
    assert [e for e in r["errors"] if e] == ["HTTP 429: queue is full"] * 5
    assert r["total_output_tokens"] == 45 and sorted(r["output_lens"]) == [0] * 5 + [3] * 15


@pytest.mark.parametrize("broken, words", [("cut", "[DONE]"), ("error", "device lost")])
def test_broken_streams_fail(tmp_path, broken, words):
    r, _ = bench(tmp_path, fake_server.Plan(first=0, gap=0, broken=broken), "--num-prompts=3", "--random-input-len=5", "--random-output-len=9", code=1)
    assert (r["completed"], r["failed"]) == (0, 3) and all(words in e for e in r["errors"]), r["errors"]


def test_without_usage_chunks_are_tokens(tmp_path):
    r, _ = bench(tmp_path, fake_server.Plan(first=0, gap=0, usage=False), "--num-prompts=2", "--random-input-len=5", "--random-output-len=6")
    assert r["output_lens"] == [6, 6] and r["input_lens"] == [5, 5]


def test_files_of_prompts(tmp_path):
    custom = tmp_path / "custom.jsonl"
    custom.write_text("".join(json.dumps({"prompt": f"question {i}", "output_tokens": 2 + i}) + "\n" for i in range(3)))
    plan = fake_server.Plan(first=0, gap=0)
    bench(tmp_path, plan, "--dataset-name=custom", "--dataset-path", custom, "--num-prompts=5", "--disable-shuffle", "--max-concurrency=1")
    assert [b["prompt"] for b in plan.bodies] == [f"question {i % 3}" for i in range(5)]
    assert [b["max_tokens"] for b in plan.bodies] == [2, 3, 4, 2, 3] and "ignore_eos" not in plan.bodies[0]
    share = tmp_path / "share.json"
    talk = lambda *turns: {"conversations": [{"from": "x", "value": t} for t in turns]}
    share.write_text(json.dumps([talk("a b c d e", "one two three four five six"), talk("alone"), talk("a", "too short a prompt here"),
                                 talk("p q r s t u", "v w x y z")]))
    plan = fake_server.Plan(first=0, gap=0)
    bench(tmp_path, plan, "--dataset-name=sharegpt", "--dataset-path", share, "--num-prompts=9", "--no-oversample")
    assert sorted((b["prompt"], b["max_tokens"]) for b in plan.bodies) == [("a b c d e", 6), ("p q r s t u", 5)]


def test_sweep_and_plot(tmp_path):
    with fake_server.Server(fake_server.Plan(first=0.02, gap=0.004)) as server:
        done = tools.succeed("dsv3-bench", "serve", "--port", server.port, "--sweep-concurrency=1,2,4", "--num-prompts=8", "--random-input-len=5",
                             "--random-output-len=6", "--save-result", "--result-dir", tmp_path, "--result-filename=s.json", "--metadata",
                             "commit=abc", "--plot", tmp_path / "s.svg")
    runs = [json.loads((tmp_path / f"s-concurrency{c}.json").read_text()) for c in (1, 2, 4)]
    assert [r["max_concurrency"] for r in runs] == [1, 2, 4] and runs[0]["commit"] == "abc" and "itls" not in runs[0]
    assert runs[2]["output_throughput"] > 2 * runs[0]["output_throughput"]
    rows = done.stdout.decode().splitlines()[-3:]
    assert [row.split()[0] for row in rows] == ["1", "2", "4"]
    assert float(rows[2].split()[2]) == pytest.approx(runs[2]["output_throughput"], abs=0.06)
    drawing = xml.dom.minidom.parse(str(tmp_path / "s.svg"))
    lines = drawing.getElementsByTagName("polyline")
    assert len(lines) == 5 and all(len(line.getAttribute("points").split()) == 3 for line in lines)
    assert b"8/8 requests" in done.stderr  # progress


def test_append_result_and_plot_of_one_run(tmp_path):
    with fake_server.Server(fake_server.Plan(first=0, gap=0)) as server:
        for _ in range(2):
            tools.succeed("dsv3-bench", "serve", "--port", server.port, "--num-prompts=2", "--random-input-len=5", "--random-output-len=2",
                          "--append-result", "--result-filename", tmp_path / "log.jsonl", "--disable-tqdm", "--plot", tmp_path / "one.svg")
    assert [json.loads(line)["completed"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [2, 2]
    assert len(xml.dom.minidom.parse(str(tmp_path / "one.svg")).getElementsByTagName("polyline")) == 2


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("flags, words", [
    (["--percentile-metrics=ttft,speed"], "speed"),
    (["--metric-percentiles=101"], "101"),
    (["--goodput", "itl:3"], "itl:3"),
    (["--goodput", "ttft"], "KEY:MILLISECONDS"),
    (["--dataset-name=custom"], "--dataset-path"),
    (["--dataset-name=custom", "--dataset-path=/nonexistent", "--model=m"], "cannot read"),
    (["--base-url=https://localhost"], "http://"),
    (["--base-url=http://127.0.0.1:port"], "port"),
    (["--extra-body=[1]"], "--extra-body"),
    (["--extra-body={"], "--extra-body"),
    (["--request-rate=0"], "--request-rate"),
    (["--request-rate=nan"], "--request-rate"),
    (["--ramp-up-strategy=linear"], "--ramp-up-start-rps"),
    (["--sweep-concurrency=1,0"], "--sweep-concurrency"),
    (["--header", "x"], "NAME=VALUE"),
    (["--model=m"], "cannot connect"),
])
def test_bad_input(flags, words):
    tools.refuse(contract.USAGE, words, "dsv3-bench", "serve", "--port", closed_port(), "--num-prompts=1", *flags)


def test_waits_for_a_server(tmp_path):
    tools.refuse(contract.USAGE, "cannot connect", "dsv3-bench", "serve", "--port", closed_port(), "--ready-check-timeout-sec=0.3")
    bench(tmp_path, fake_server.Plan(first=0, gap=0), "--ready-check-timeout-sec=5", "--num-prompts=1", "--num-warmups=2", "--random-output-len=2")


def test_silent_server_times_out(tmp_path):
    plan = fake_server.Plan(first=3)
    r, _ = bench(tmp_path, plan, "--num-prompts=2", "--random-output-len=2", "--request-timeout-sec=0.3", code=1)
    assert r["failed"] == 2 and all("timed out" in e for e in r["errors"])
