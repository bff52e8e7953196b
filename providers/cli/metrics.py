"""What `gpus top` measured last, as Prometheus reads it over HTTP.

Owns the text (Prometheus, "Exposition formats", version 0.0.4) and the server, which listens only
on this machine unless told otherwise.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from providers.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from providers.remote.gauges import Gauge, Reading

HERE = "127.0.0.1"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MIB = 1 << 20


class Sample(NamedTuple):
    """One machine's reading, with what it is called."""

    cluster: str
    stack: str
    number: int
    reading: Reading


class _Metric(NamedTuple):
    name: str
    help: str
    kind: str
    value: Callable[[Gauge], float | None]


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_METRICS = (
    _Metric(
        "gpus_busy_ratio",
        "Share of the last moments in which the GPU computed.",
        "gauge",
        lambda card: _scaled(card.busy_percent, 0.01),
    ),
    _Metric(
        "gpus_memory_used_bytes",
        "Memory of the GPU in use.",
        "gauge",
        lambda card: _scaled(card.used_mib, _MIB),
    ),
    _Metric(
        "gpus_memory_bytes",
        "Memory of the GPU.",
        "gauge",
        lambda card: _scaled(card.total_mib, _MIB),
    ),
    _Metric("gpus_power_watts", "Power that the GPU draws.", "gauge", lambda card: card.power_w),
    _Metric(
        "gpus_power_limit_watts",
        "Power that the GPU may draw.",
        "gauge",
        lambda card: card.power_limit_w,
    ),
    _Metric(
        "gpus_temperature_celsius",
        "Temperature of the GPU.",
        "gauge",
        lambda card: card.temperature_c,
    ),
    _Metric(
        "gpus_ecc_uncorrected_total",
        "ECC errors that were not corrected, since the driver started.",
        "counter",
        lambda card: card.uncorrected,
    ),
)


def text(samples: Sequence[Sample]) -> str:
    """All samples. Of a machine that did not answer only that; what its driver does not say stays
    out. Pure.
    """
    lines = ["# HELP gpus_up Whether the machine's driver answered.", "# TYPE gpus_up gauge"]
    lines += [_line("gpus_up", _of(each), float(not each.reading.why)) for each in samples]
    lines += [
        "# HELP gpus_xid_total Reports of the driver in the machine's kernel log.",
        "# TYPE gpus_xid_total counter",
    ]
    lines += [
        _line("gpus_xid_total", _of(each), float(each.reading.xids))
        for each in samples
        if each.reading.xids is not None
    ]
    for metric in _METRICS:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        lines += _lines(metric, samples)
    return "\n".join(lines) + "\n"


def _lines(metric: _Metric, samples: Sequence[Sample]) -> Iterable[str]:
    for each in samples:
        for card in each.reading.gauges:
            value = metric.value(card)
            if value is not None:
                labels = (*_of(each), ("gpu", str(card.number)), ("model", card.name))
                yield _line(metric.name, labels, value)


def _of(sample: Sample) -> tuple[tuple[str, str], ...]:
    return (
        ("cluster", sample.cluster),
        ("stack", sample.stack),
        ("node", str(sample.number)),
    )


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    escaped = ",".join(
        f'{key}="{text}"'
        for key, value_ in labels
        for text in [value_.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")]
    )
    return f"{name}{{{escaped}}} {value:.10g}"


def address(text: str) -> tuple[str, int]:
    """(host, port) of `9400` or `0.0.0.0:9400`. Raises SpecError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise SpecError([Problem("--serve", "PORT or ADDRESS:PORT", repr(text), "as in 9400")])
    return host or HERE, int(port)


class Endpoint:
    """An HTTP server of `/metrics`; `publish` says what it answers from now on."""

    def __init__(self, host: str, port: int) -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = (endpoint.body if found else "only /metrics is here\n").encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", _TYPE if found else "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Says nothing: the terminal shows the table."""

        self.body = text(())
        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            wanted = f"an address that is free, to listen at {host}:{port}"
            found = error.strerror or str(error)
            raise SpecError([Problem("--serve", wanted, found, "name another port")]) from None
        self.url = f"http://{host}:{self._server.server_address[1]}/metrics"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, samples: Sequence[Sample]) -> None:
        """Answers with these from now on."""
        self.body = text(samples)

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
