"""The tables of the deployed apps, and a record for each kind of row."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SCHEMA = """
CREATE TABLE IF NOT EXISTS modal_deployed (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, environment TEXT NOT NULL, state TEXT NOT NULL,
  tags TEXT NOT NULL, created REAL NOT NULL, published REAL, stopped REAL,
  idempotency TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS modal_function (
  id TEXT PRIMARY KEY, app TEXT NOT NULL, name TEXT NOT NULL, live INTEGER NOT NULL,
  choices TEXT NOT NULL, region TEXT NOT NULL, timeout_s REAL NOT NULL, retries INTEGER NOT NULL,
  scale TEXT NOT NULL, override TEXT NOT NULL, web INTEGER NOT NULL, url TEXT NOT NULL,
  definition BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS modal_call (
  id TEXT PRIMARY KEY, function TEXT NOT NULL, idempotency TEXT NOT NULL, created REAL NOT NULL,
  doom TEXT NOT NULL, task TEXT NOT NULL, status TEXT NOT NULL, exception TEXT NOT NULL,
  ended REAL, attempts INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS modal_container (
  id TEXT PRIMARY KEY, app TEXT NOT NULL, function TEXT NOT NULL, call TEXT NOT NULL,
  choices TEXT NOT NULL, region TEXT NOT NULL, created REAL NOT NULL, ready REAL NOT NULL,
  started REAL, delivered TEXT NOT NULL, gpu_count INTEGER NOT NULL, ended REAL);
"""
INITIALIZING, DEPLOYED, STOPPED = "INITIALIZING", "DEPLOYED", "STOPPED"
SUCCESS, FAILURE = "SUCCESS", "FAILURE"


class App(NamedTuple):
    """A row of an app. `tags` is JSON."""

    id: str
    name: str
    environment: str
    state: str
    tags: str
    created: float
    published: float | None
    stopped: float | None
    idempotency: str


class Function(NamedTuple):
    """A row of a function. `live` is 1 in the published layout; `choices` is JSON, [[GPU, exact,
    count], ...]; `scale`, `override` are settings.
    """

    id: str
    app: str
    name: str
    live: int
    choices: str
    region: str
    timeout_s: float
    retries: int
    scale: str
    override: str
    web: int
    url: str
    definition: bytes

    def settings(self) -> dict[str, int]:
        """The autoscaler's settings as they hold now."""
        found: dict[str, int] = {**json.loads(self.scale), **json.loads(self.override)}
        return found


class Call(NamedTuple):
    """A row of a job's call. `doom` is an exit code or a status that its attempts end with ("" for
    exit code 0).
    """

    id: str
    function: str
    idempotency: str
    created: float
    doom: str
    task: str
    status: str
    exception: str
    ended: float | None
    attempts: int


class Container(NamedTuple):
    """A row of a container, wanted since `created` and there once `started`."""

    id: str
    app: str
    function: str
    call: str
    choices: str
    region: str
    created: float
    ready: float
    started: float | None
    delivered: str
    gpu_count: int
    ended: float | None


def summary(row: Container) -> dict[str, Any]:
    """What a list shows of a container."""
    return {
        "task_id": row.id,
        "app_id": row.app,
        "started_at": row.started or 0.0,
        "enqueued_at": row.created,
    }
