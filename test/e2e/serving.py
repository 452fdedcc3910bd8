"""dsv3-serve as a process, and a client that sees every byte."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import tools

TIMEOUT = 60


class Server:
    """A running dsv3-serve on a free port of the loopback; a context manager."""

    def __init__(self, artifact, *flags, env=None, host="127.0.0.1"):
        command = [tools.path_of("dsv3-serve"), artifact, "--port=0", f"--host={host}", *map(str, flags)]
        self.started = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.lines = []
        self.port = None
        self.serving = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.serving.wait(TIMEOUT) or self.port is None:
            self.process.kill()
            raise AssertionError("dsv3-serve did not start: " + "".join(self.lines)[-2000:])

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"http://[^\s\"]*:(\d+)", line)
            if found and self.port is None:
                self.port = int(found.group(1))
                self.serving.set()
        self.serving.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        self.reader.join(TIMEOUT)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(TIMEOUT)
        self.reader.join(TIMEOUT)
        return code

    def log(self):
        return "".join(self.lines)

    # --- requests

    def connect(self, timeout=TIMEOUT):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Client(sock)

    def request(self, method, path, body=None, headers=()):
        with self.connect() as client:
            client.send(request_bytes(method, path, body, headers))
            return client.response()

    def get(self, path, headers=()):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=()):
        return self.request("POST", path, body, headers)

    def good(self, path, body):
        response = self.post(path, body)
        assert response.status == 200, response.body
        return response.json()

    def metrics(self):
        """name -> value, of samples without labels of their own; name{key="value"} of the others."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = re.fullmatch(r"(\S+?)\{(.*)\} (\S+)", line).groups()
            own = [part for part in re.findall(r'\w+="[^"]*"', labels) if not part.startswith(("model_name", "engine"))]
            values[name + ("{" + ",".join(own) + "}" if own else "")] = float(value)
        return values

    def wait_for(self, condition, what, seconds=20):
        """Polls the metrics until `condition(metrics)`."""
        end = time.monotonic() + seconds
        while True:
            values = self.metrics()
            if condition(values):
                return values
            assert time.monotonic() < end, f"{what}: {values}"
            time.sleep(0.02)

    def wait_idle(self):
        """Nothing runs, nothing waits, and every page is free."""
        return self.wait_for(lambda m: m["vllm:num_requests_running"] == 0 and m["vllm:num_requests_waiting"] == 0
                             and m["dsv3:kv_pages_free"] == m["dsv3:kv_pages_total"], "expected an idle engine")


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    def events(self):
        """The JSON of each event of a stream; the last must be [DONE], which is left out."""
        parts = self.body.decode("utf-8", "strict").split("\n\n")
        assert parts[-1] == "" and all(p.startswith("data: ") for p in parts[:-1])
        assert parts[-2] == "data: [DONE]"
        return [json.loads(p[len("data: "):]) for p in parts[:-2]]


def request_bytes(method, path, body=None, headers=()):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class Client:
    """One connection."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def post(self, path, body):
        self.send(request_bytes("POST", path, body))

    def more(self):
        data = self.sock.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def until(self, mark):
        """Everything up to and with `mark`."""
        while mark not in self.buffer:
            assert self.more(), f"expected {mark!r} before the end, got {self.buffer[-300:]!r}"
        end = self.buffer.index(mark) + len(mark)
        out, self.buffer = self.buffer[:end], self.buffer[end:]
        return out

    def exactly(self, size):
        while len(self.buffer) < size:
            assert self.more(), "the connection ended inside a body"
        out, self.buffer = self.buffer[:size], self.buffer[size:]
        return out

    def head(self):
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if line)}
        return int(lines[0].split()[1]), headers

    def response(self, body=True):
        status, headers = self.head()
        data = b""
        if not body:
            return Response(status, headers, data)
        if headers.get("transfer-encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                data += self.exactly(size)
                assert self.exactly(2) == b"\r\n"
            assert self.exactly(2) == b"\r\n"
        elif "content-length" in headers:
            data = self.exactly(int(headers["content-length"]))
        else:
            while self.more():
                pass
            data, self.buffer = self.buffer, b""
        return Response(status, headers, data)

    def closed(self):
        """The server has closed; nothing came before."""
        try:
            return not self.buffer and not self.sock.recv(1)
        except ConnectionResetError:
            return True
