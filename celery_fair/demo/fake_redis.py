"""``python -m celery_fair.demo.fake_redis``: a stand-in for Redis, its port on the first line."""

from __future__ import annotations

from fakeredis import TcpFakeServer


def main() -> None:
    server = TcpFakeServer(("127.0.0.1", 0))
    # With Nagle's algorithm each short reply waits for the acknowledgement of the last: 40 ms.
    server.RequestHandlerClass.disable_nagle_algorithm = True
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
