"""A pipeline: fetch records over HTTP, score them with kernels and a user op, write what was found.

The example starts a small HTTP server of its own. A few records are so slow that the op that fetches
them runs out of time, and a few are withdrawn while they are on their way. Neither disturbs the others.
Nothing piles up: a record is fetched when there is room for it, and scored when the last was written.

Prints:
    300 records: 290 scored, 4 timed out, 6 withdrawn
    verdicts: 235 keep, 55 drop
    first line: {"record": 0, "score": 0.0, "verdict": "drop"}
    last line: {"record": 299, "score": 1.7601, "verdict": "keep"}
"""

import asyncio
import json
import tempfile
from collections import Counter, deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncgraph as ag

RECORDS = 300
SLOW = range(100, 104)
WITHDRAWN = range(20, RECORDS, 50)
counts: Counter[str] = Counter()


# -- a server, for the example ---------------------------------------------------------------------------


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    number = int((await reader.readline()).split()[1].rpartition(b"/")[2])
    while (await reader.readline()).strip():
        pass
    if number in SLOW:
        await reader.read()  # until the client gives up
    else:
        body = json.dumps({"record": number, "values": [number / RECORDS, 1.0, number % 7]})
        writer.write(f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
    writer.close()
    await writer.wait_closed()


# -- the graph -------------------------------------------------------------------------------------------


@ag.op(timeout_s=1.0)
async def fetch(port: int, number: int) -> dict[str, Any]:
    """The record of that number."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET /records/{number} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.0 200"):
            raise OSError(f"record {number}: {head.decode()}")
        return json.loads(body)
    finally:
        writer.close()
        await writer.wait_closed()


@ag.op
def judge(record: dict[str, Any], score: Any) -> dict[str, Any]:
    """What is written of a record."""
    return {"record": record["record"], "score": round(float(score), 4), "verdict": "keep" if score > 1 else "drop"}


with ag.Graph() as graph:
    port = ag.placeholder(None, name="port")
    number = ag.placeholder(None, name="number")
    fetched = fetch(port, number, name="fetched")

    record = ag.placeholder(None, name="record")
    values = ag.placeholder("float64", (3,), name="values")
    score = ag.ops.tanh(values) @ ag.constant([1.0, 0.0, 1.0])
    verdict = judge(record, score, name="verdict")


# -- the pipeline ----------------------------------------------------------------------------------------


async def records(session: ag.Session, server_port: int, window: int = 16) -> AsyncIterator[ag.RunArgs[Any]]:
    """What is to be scored, in order, with at most `window` records on their way."""
    todo = iter(range(RECORDS))
    on_their_way: deque[ag.RunFuture[Any]] = deque()
    while True:
        for one in todo:
            future = session.submit(ag.RunArgs(fetched, {port: server_port, number: one}))
            if one in WITHDRAWN:
                future.cancel()
            on_their_way.append(future)
            if len(on_their_way) == window:
                break
        if not on_their_way:
            return
        future = on_their_way.popleft()
        await asyncio.wait([future])
        if future.cancelled():
            counts["withdrawn"] += 1
        elif isinstance(future.exception(), ag.errors.NodeTimeoutError):
            counts["timed out"] += 1
        else:
            got = future.result().results
            yield ag.RunArgs(verdict, {record: got, values: got["values"]})


async def main(path: Path) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    server_port = server.sockets[0].getsockname()[1]
    async with server, ag.Session(graph) as session:
        with path.open("w") as file:
            async with session.map(records(session, server_port), concurrency=8) as scored:
                async for found in scored:
                    file.write(json.dumps(found.results) + "\n")
                    counts["scored"] += 1


def report(path: Path) -> None:
    lines = path.read_text().splitlines()
    verdicts = Counter(json.loads(line)["verdict"] for line in lines)
    print(f"{RECORDS} records:", ", ".join(f"{counts[what]} {what}" for what in ("scored", "timed out", "withdrawn")))
    print(f"verdicts: {verdicts['keep']} keep, {verdicts['drop']} drop")
    print("first line:", lines[0])
    print("last line:", lines[-1])


with tempfile.TemporaryDirectory() as folder:
    written = Path(folder) / "scores.jsonl"
    asyncio.run(main(written))
    report(written)
