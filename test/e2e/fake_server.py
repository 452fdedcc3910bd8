"""A server that speaks as much of the OpenAI API as `dsv3-bench serve` needs, with delays that are known."""
import http.server
import json
import threading
import time


class Plan:
    """How the server behaves. Times in seconds."""

    def __init__(self, first=0.05, gap=0.01, tokens=None, fail_every=0, broken="", chat_role=True, usage=True):
        self.first = first            # until the first token
        self.gap = gap                # between two tokens
        self.tokens = tokens          # of each answer; None: as many as asked for
        self.fail_every = fail_every  # every so many-th request gets a 429
        self.broken = broken          # "cut": the stream ends without [DONE]; "error": an event says so
        self.chat_role = chat_role    # chat streams begin with a chunk that only names the role
        self.usage = usage
        self.bodies = []
        self.headers = []
        self.running = self.peak = 0
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, obj):
        data = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models":
            self.reply(200, {"data": [{"id": "fake-model"}]})
        else:
            self.reply(200, {})

    def do_POST(self):
        plan = self.server.plan
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self.reply(200, {"tokens": [3 + hash_of(w) % 500 for w in body["prompt"].split()]})
        if self.path == "/detokenize":
            return self.reply(200, {"prompt": " ".join(map(str, body["tokens"]))})
        with plan.lock:
            plan.bodies.append(body)
            plan.headers.append(dict(self.headers))
            number = len(plan.bodies)
            plan.running += 1
            plan.peak = max(plan.peak, plan.running)
        try:
            if plan.fail_every and number % plan.fail_every == 0:
                return self.reply(429, {"error": {"message": "queue is full", "type": "rate_limit_error"}})
            self.stream(plan, body)
        finally:
            with plan.lock:
                plan.running -= 1

    def stream(self, plan, body):
        chat = "messages" in body
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        count = plan.tokens or body["max_completion_tokens" if chat else "max_tokens"]
        if chat and plan.chat_role:
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        for i in range(count):
            time.sleep(plan.gap if i else plan.first)
            if i == 3 and plan.broken == "cut":
                self.close_connection = True
                self.wfile.write(b"0\r\n\r\n")
                return
            if i == 3 and plan.broken == "error":
                self.event({"error": {"message": "device lost", "code": 500}})
                break
            text = {"delta": {"content": "é "}} if chat else {"text": "é "}
            self.event({"choices": [{"index": 0, **text, "finish_reason": "length" if i == count - 1 else None}]})
        if plan.usage and body.get("stream_options", {}).get("include_usage"):
            prompt = body.get("prompt", [0] * 7)
            self.event({"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": count}})
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, obj):
        # In two pieces, cut inside a character: a client must put them together.
        data = b": ping\n\ndata: " + json.dumps(obj, ensure_ascii=False).encode() + b"\n\n"
        cut = data.find("é".encode()) + 1 or len(data) // 2
        self.chunk(data[:cut])
        self.chunk(data[cut:])

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def hash_of(word):
    return sum(ord(c) * 31 ** i for i, c in enumerate(word))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, plan):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan = plan
        self.port = self.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
