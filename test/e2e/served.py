"""A running dsv3-serve, and what it says about itself."""
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import contract
import tools

START_SECONDS = 60


class Served:
    """Starts `dsv3-serve ARTIFACT` on a free port, and ends it with SIGTERM: it must drain and exit with 0."""

    def __init__(self, artifact, *flags, env=None):
        self.log = tempfile.NamedTemporaryFile(prefix="dsv3-serve-", suffix=".log")
        command = [tools.path_of("dsv3-serve"), str(artifact), "--port=0", "--log-format=json", *map(str, flags)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})})
        try:
            self.port = self._wait_for_port()
        except BaseException:
            self.process.kill()
            raise

    def _wait_for_port(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            found = re.search(r'"url": ?"http://[^"]*:(\d+)"', self.said())
            if found:
                return int(found[1])
            assert self.process.poll() is None, f"dsv3-serve exited with {self.process.returncode}: {self.said()[-2000:]}"
            time.sleep(0.02)
        raise AssertionError(f"dsv3-serve was not ready after {START_SECONDS} s: {self.said()[-2000:]}")

    def said(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, timeout=120):
        """(status, headers, body as JSON or text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            reply = connection.getresponse()
            text = reply.read().decode()
            is_json = "json" in (reply.getheader("Content-Type") or "")
            return reply.status, reply.headers, json.loads(text) if is_json else text
        finally:
            connection.close()

    def completion(self, prompt, **fields):
        status, _, body = self.ask("POST", "/v1/completions", {"prompt": prompt, **fields})
        assert status == 200, body
        return body["choices"][0]["text"]

    def answer(self, question, **fields):
        """Greedy answer of the chat model."""
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 120, **fields}
        status, _, body = self.ask("POST", "/v1/chat/completions", body)
        assert status == 200, body
        return body["choices"][0]["message"]["content"]

    def metrics(self):
        """name -> sum over labels."""
        status, _, text = self.ask("GET", "/metrics")
        assert status == 200
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.split("{")[0].split(" ")[0], float(line.rsplit(" ", 1)[1])
                values[name] = values.get(name, 0) + value
        return values

    def pages(self):
        """(pages that requests hold, all pages)"""
        m = self.metrics()
        return m["dsv3:kv_pages_total"] - m["dsv3:kv_pages_free"], m["dsv3:kv_pages_total"]

    def wait_idle(self, seconds=10):
        """Until nothing runs or waits and no page is held."""
        end = time.monotonic() + seconds
        while True:
            m = self.metrics()
            held = m["dsv3:kv_pages_total"] - m["dsv3:kv_pages_free"]
            state = (m["vllm:num_requests_running"], m["vllm:num_requests_waiting"], held)
            if state == (0, 0, 0):
                return
            assert time.monotonic() < end, f"expected no request and no page held after {seconds} s, got running, waiting, pages = {state}"
            time.sleep(0.05)

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) / 1024

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        said = self.said()
        self.log.close()
        if kind is None:
            assert code == contract.OK, f"expected exit code 0 after SIGTERM, got {code}: {said[-2000:]}"
        elif said:
            print("dsv3-serve said:\n" + said[-3000:])
