"""A small HTTP server that serves a page of metrics, or misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} 12.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="m"}} {waiting}
vllm:num_requests_waiting{{engine="1",model_name="m"}} 1.0
vllm:num_requests_waiting{{engine="0",model_name="other"}} 40.0
# HELP vllm:num_requests_waiting_by_reason Number of requests waiting, by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{{engine="0",model_name="m",reason="capacity"}} 9.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {cache}
vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} 0.25
"""
"""What a server with two engines and another model says, in the names of vLLM 0.11 and later."""


class Page:
    """What the server answers now."""

    def __init__(self) -> None:
        self.url = ""
        self.text = ""
        self.status = 200
        self.drips = False
        self.ended = threading.Event()
        self.asked: list[dict[str, str]] = []

    def vllm(self, waiting: float, cache: float = 0.5) -> None:
        self.text = VLLM.format(waiting=waiting, cache=cache)


@contextmanager
def metrics_server() -> Iterator[Page]:
    page = Page()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.asked.append(dict(self.headers))
            self.send_response(page.status)
            self.end_headers()
            if page.drips:
                while not page.ended.wait(0.02):
                    self.wfile.write(b"# a\n")
                    self.wfile.flush()
            self.wfile.write(page.text.encode())

        def log_message(self, *_: Any) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    page.url = f"http://127.0.0.1:{server.server_port}/metrics"
    try:
        yield page
    finally:
        page.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
