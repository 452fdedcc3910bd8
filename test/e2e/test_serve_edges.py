"""dsv3-serve against clients that misbehave, operators that stop it, and an engine that stalls."""
import json
import os
import signal
import socket
import time

import pytest

import contract
import tools
from serving import Server, request_bytes

LONG = {"prompt": "Once upon a time", "max_tokens": 1900, "ignore_eos": True, "temperature": 0}
SHORT = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def server(tiny_f32):
    with Server(tiny_f32, "--max-body-bytes=65536", "--header-timeout=0.5", "--body-timeout=0.5", "--idle-timeout=0.8") as s:
        yield s
        assert s.process.poll() is None, s.log()
        s.wait_idle()


def running(count):
    return lambda m: m["vllm:num_requests_running"] >= count


# --- HTTP

def test_many_requests_on_one_connection(server):
    with server.connect() as client:
        for _ in range(3):
            client.send(request_bytes("GET", "/health"))
            assert client.response().status == 200
            client.post("/v1/completions", SHORT)
            assert client.response().status == 200


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as client:
        client.send(request_bytes("POST", "/v1/completions", SHORT) + request_bytes("GET", "/version")
                    + request_bytes("POST", "/v1/completions", {**SHORT, "stream": True}) + request_bytes("GET", "/health"))
        assert client.response().json()["choices"]
        assert "version" in client.response().json()
        assert client.response().events()
        assert client.response().status == 200


@pytest.mark.parametrize("garbage", (b"\0\1\2\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/3.0\r\n\r\n", b"GET /\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"))
def test_garbage_gets_400_and_the_end(server, garbage):
    with server.connect() as client:
        client.send(garbage)
        response = client.response()
        assert response.status == 400 and response.error() and response.headers["connection"] == "close"
        assert client.closed()


def test_large_header(server):
    with server.connect() as client:
        client.send(b"GET /health HTTP/1.1\r\nx: " + b"a" * 20000 + b"\r\n\r\n")
        assert client.response().status == 431


@pytest.mark.parametrize("chunked", (False, True))
def test_large_body(server, chunked):
    with server.connect() as client:
        if chunked:
            client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"20000\r\n" + b"a" * 0x20000 + b"\r\n0\r\n\r\n")
        else:
            client.send(request_bytes("POST", "/v1/completions", b"a" * 0x20000))
        response = client.response()
        assert response.status == 413 and response.error()["code"] == "body_too_large"


def test_slow_header_and_body_time_out(server):
    for part in (b"GET /health HT", request_bytes("POST", "/v1/completions", SHORT)[:-5]):
        with server.connect() as client:
            client.send(part)
            begun = time.monotonic()
            response = client.response()
            assert response.status == 408 and response.error()["code"] == "request_timeout"
            assert 0.3 < time.monotonic() - begun < 5


def test_idle_connections_are_closed(server):
    with server.connect() as client:
        client.send(request_bytes("GET", "/health"))
        assert client.response().status == 200
        begun = time.monotonic()
        assert client.closed() and 0.5 < time.monotonic() - begun < 5


def test_expect_continue(server):
    head, body = request_bytes("POST", "/v1/completions", SHORT, ["Expect: 100-continue"]).split(b"\r\n\r\n")
    with server.connect() as client:
        client.send(head + b"\r\n\r\n")
        assert client.head()[0] == 100
        client.send(body)
        assert client.response().status == 200


def test_http_1_0_streams_to_the_end_of_the_connection(server):
    body = json.dumps({**SHORT, "stream": True}).encode()
    with server.connect() as client:
        client.send(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        response = client.response()
        assert response.status == 200 and "transfer-encoding" not in response.headers and response.events()


def test_head_has_no_body(server):
    with server.connect() as client:
        client.send(request_bytes("HEAD", "/v1/models") + request_bytes("GET", "/health"))
        assert int(client.response(body=False).headers["content-length"]) > 0
        assert client.response().status == 200


def test_connection_limit(tiny_f32):
    with Server(tiny_f32, "--max-connections=2") as server:
        with server.connect() as a, server.connect() as b:
            for client in (a, b):
                client.send(request_bytes("GET", "/health"))
                assert client.response().status == 200
            with server.connect() as c:
                response = c.response()
                assert response.status == 503 and response.error()["code"] == "too_many_connections"
        end = time.monotonic() + 5
        while server.get("/health").status != 200:
            assert time.monotonic() < end, "expected a place once others have left"
        server.wait_idle()


# --- clients that go away: their pages come back

@pytest.mark.parametrize("stream", (False, True))
@pytest.mark.parametrize("how", ("close", "reset", "half"))
def test_disconnect_while_it_decodes(server, stream, how):
    before = server.wait_idle()
    client = server.connect()
    client.post("/v1/completions", {**LONG, "n": 2, "stream": stream})
    server.wait_for(running(2), "expected two running sequences")
    if stream:
        client.until(b"data: ")
    if how == "reset":
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "half":
        client.sock.shutdown(socket.SHUT_WR)
    else:
        client.sock.close()
    after = server.wait_idle()
    assert after["dsv3:client_disconnects_total"] - before["dsv3:client_disconnects_total"] == 1
    aborted = 'vllm:request_success_total{finished_reason="abort"}'
    assert after[aborted] - before[aborted] == 2
    client.sock.close()


def test_disconnect_while_queued_and_in_prefill(server):
    """Eight run, more wait; one reads a long prompt. All go away at once."""
    server.wait_idle()
    clients = []
    for i in range(12):
        client = server.connect()
        client.post("/v1/completions", {**LONG, "prompt": [5 + i] * 1500, "max_tokens": 400, "stream": i % 2 == 0})
        clients.append(client)
    server.wait_for(lambda m: m["vllm:num_requests_waiting"] >= 1, "expected requests that wait")
    for client in reversed(clients):
        client.sock.close()
    server.wait_idle()
    assert server.good("/v1/completions", SHORT)["usage"]["completion_tokens"] == 4


def test_disconnect_inside_a_request(server):
    for part in (1, 30, 150):
        with server.connect() as client:
            client.send(request_bytes("POST", "/v1/completions", SHORT)[:part])
    server.wait_idle()


def test_slow_reader_is_cut_off(tiny_f32):
    """Nobody reads: the kernel's buffers fill, then ours, then the request ends."""
    with Server(tiny_f32, "--stream-buffer-bytes=65536") as server:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(request_bytes("POST", "/v1/completions", {**LONG, "n": 8, "stream": True, "logprobs": 20, "temperature": 1}))
        server.wait_for(lambda m: m["dsv3:slow_readers_total"] == 1, "expected a slow reader", seconds=60)
        server.wait_idle()
        assert server.good("/v1/completions", SHORT)
        sock.close()


# --- limits and shutdown

def test_queue_limit(tiny_f32):
    with Server(tiny_f32, "--max-num-queued-reqs=8", "--max-num-seqs=2") as server:
        clients = [server.connect() for _ in range(40)]
        for client in clients:
            client.post("/v1/completions", {**LONG, "max_tokens": 64})
        responses = [client.response() for client in clients]
        for client in clients:
            client.sock.close()
        statuses = [r.status for r in responses]
        assert set(statuses) == {200, 429} and statuses.count(200) >= 10
        refused = next(r for r in responses if r.status == 429)
        assert int(refused.headers["retry-after"]) >= 1 and refused.error()["code"] == "queue_full"
        texts = {r.json()["choices"][0]["text"] for r in responses if r.status == 200}
        assert len(texts) == 1, "accepted requests must not be harmed"
        server.wait_idle()


def test_sigterm_drains(tiny_f32):
    with Server(tiny_f32) as server:
        client, late = server.connect(), server.connect()
        client.post("/v1/completions", {**LONG, "max_tokens": 600, "stream": True})
        client.until(b"data: ")
        server.signal()
        server.wait_for(lambda m: m["dsv3:draining"] == 1, "expected to drain")
        assert server.get("/health").status == 200 and server.get("/ready").status == 503
        late.post("/v1/completions", SHORT)
        refused = late.response()
        assert refused.status == 503 and "retry-after" in refused.headers
        client.buffer = b""
        assert client.until(b"data: [DONE]")
        assert server.wait() == contract.OK
        late.sock.close()
        client.sock.close()


def test_shutdown_timeout_cuts_off(tiny_f32):
    with Server(tiny_f32, "--shutdown-timeout=0.2") as server:
        client = server.connect()
        client.post("/v1/completions", {**LONG, "n": 8})
        server.wait_for(running(8), "expected running sequences")
        server.signal()
        assert client.response().status == 503
        assert server.wait() == 1
        client.sock.close()


def test_second_signal_aborts(tiny_f32):
    with Server(tiny_f32) as server:
        client = server.connect()
        client.post("/v1/completions", {**LONG, "n": 8})
        server.wait_for(running(8), "expected running sequences")
        server.signal()
        server.wait_for(lambda m: m["dsv3:draining"] == 1, "expected to drain")
        server.signal()
        assert server.wait() == 128 + signal.SIGTERM
        client.sock.close()


def test_watchdog(tiny_f32):
    with Server(tiny_f32, "--watchdog-timeout=0.3", env={"DSV3_FAULT": "stall_step:1.5"}) as server:
        assert server.get("/health").status == 200
        client = server.connect()
        client.post("/v1/completions", SHORT)
        begun = time.monotonic()
        while server.get("/health").status != 503:
            assert time.monotonic() - begun < 1.2, "expected /health to turn within the watchdog's time"
            time.sleep(0.02)
        assert client.response().status == 200, "the step ends, and so does the request"
        assert server.get("/health").status == 200
        client.sock.close()


# --- who may, and what is set

def test_api_key(tiny_f32):
    with Server(tiny_f32, env={"DSV3_API_KEY": "secret-1"}) as server:
        assert server.get("/health").status == server.get("/metrics").status == 200
        for headers in ((), ["Authorization: Bearer wrong"], ["Authorization: secret-1"], ["Authorization: Bearer secret-1x"]):
            response = server.get("/v1/models", headers)
            assert response.status == 401 and response.error()["code"] == "invalid_api_key"
        assert server.get("/v1/models", ["Authorization: Bearer secret-1"]).status == 200
        assert server.post("/v1/completions", SHORT).status == server.post("/tokenize", {"prompt": "x"}).status == 401
        assert "secret-1" not in server.log()


def test_flag_over_environment_over_file(tiny_f32, tmp_path):
    config = tmp_path / "serve.yaml"
    config.write_text("max_num_seqs: 1\nmax-body-bytes: 2048\nserved-model-name: [a, b]\nlog-format: json\n")
    with Server(tiny_f32, "--config", config, "--max-num-seqs=3", env={"DSV3_MAX_NUM_SEQS": "2", "DSV3_MAX_BODY_BYTES": "4096"}) as server:
        assert [m["id"] for m in server.get("/v1/models").json()["data"]] == ["a", "b"]
        lines = [json.loads(line) for line in list(server.lines)]
        flags = next(line["flags"] for line in lines if line["message"] == "configuration")
        assert {"--max-num-seqs=3 (flag)", "--max-body-bytes=4096 (env)", "--served-model-name=a,b (file)"} <= set(flags)
        assert server.metrics()["dsv3:max_requests_running"] == 3


@pytest.mark.parametrize("text, mentions", (("no-such-flag: 1", "no-such-flag"), ("port: [1", "serve.yaml"), ("port: x", "port"),
                                            ("port: 1\nport: 2", "port"), ("- port", "map"), ("port: {a: 1}", "port")))
def test_bad_config_files(tiny_f32, tmp_path, text, mentions):
    config = tmp_path / "serve.yaml"
    config.write_text(text)
    tools.refuse(contract.USAGE, mentions, "dsv3-serve", tiny_f32, "--config", config)


@pytest.mark.parametrize("flags, mentions", ((["--port=70000"], "port"), (["--host=nowhere"], "host"), (["--max-num-seqs=0"], "max-num-seqs"),
                                             (["--log-format=xml"], "log-format"), (["--config=/no/such"], "config"), (["--seed=-1"], "seed")))
def test_bad_flags(tiny_f32, flags, mentions):
    tools.refuse(contract.USAGE, mentions, "dsv3-serve", tiny_f32, *flags)


def test_port_in_use(server, tiny_f32):
    done = tools.run("dsv3-serve", tiny_f32, f"--port={server.port}")
    assert done.returncode == contract.USAGE and b"cannot listen on 127.0.0.1" in done.stderr


def test_damaged_artifact(tmp_path):
    os.makedirs(tmp_path / "x.dsv3")
    tools_run = tools.run("dsv3-serve", tmp_path / "x.dsv3")
    assert tools_run.returncode == contract.BAD_CHECKPOINT


# --- ready in no time

def test_cold_start_to_first_token(tiny_f32):
    """Process start to the first byte of text, on the CPU: under a second. The median of three, for a busy machine."""
    times = []
    for _ in range(3):
        with Server(tiny_f32) as server:
            client = server.connect()
            client.post("/v1/completions", {**SHORT, "stream": True})
            client.until(b'"text":')
            times.append(time.monotonic() - server.started)
            client.sock.close()
    assert sorted(times)[1] < 1.0, times
