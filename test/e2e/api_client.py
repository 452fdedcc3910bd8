"""Many requests at a time against dsv3-serve, some of which are given up: asyncio and raw sockets, since what matters is when a
socket closes and which bytes came before."""
import asyncio
import json


class Reply:
    def __init__(self):
        self.status = 0
        self.headers = {}
        self.text = ""          # what the model said
        self.finish = None
        self.done = False       # the reply is whole: [DONE] of a stream, or all bytes of the body
        self.aborted = False
        self.error = None       # body of a reply other than 200

    def __repr__(self):
        return f"Reply({self.status}, {self.text[:40]!r}, {self.finish}, done={self.done}, aborted={self.aborted}, {self.error})"


async def request(port, path, body, abort_after=None, host="127.0.0.1"):
    """`abort_after`: seconds from the start after which the client goes away, in whatever state that is."""
    reply = Reply()
    try:
        await asyncio.wait_for(_request(reply, host, port, path, body), abort_after)
    except asyncio.TimeoutError:
        reply.aborted = True
    return reply


async def _request(reply, host, port, path, body):
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
                     "Connection: close\r\n\r\n".encode() + data)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        reply.status = int(head[0].split()[1])
        reply.headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in head[1:] if ":" in line)}
        if reply.headers.get("transfer-encoding") == "chunked":
            await _stream(reply, reader)
        else:
            text = await reader.readexactly(int(reply.headers["content-length"]))
            _take(reply, json.loads(text))
            reply.done = True
    finally:
        writer.close()


async def _stream(reply, reader):
    text = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).strip(), 16)
        text += (await reader.readexactly(size + 2))[:-2]
        *events, text = text.split(b"\n\n")
        for event in events:
            data = event.removeprefix(b"data: ")
            if data == b"[DONE]":
                reply.done = True
            elif not data.startswith(b":"):
                _take(reply, json.loads(data))
        if size == 0:
            return


def _take(reply, obj):
    if "error" in obj:
        reply.error = obj["error"]
    for choice in obj.get("choices", []):
        said = choice.get("delta") or choice.get("message") or choice
        reply.text += said.get("content", said.get("text")) or ""
        reply.finish = choice.get("finish_reason") or reply.finish
