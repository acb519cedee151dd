"""Reads one channel with Python's standard library alone: an event stream by
http.client, long-poll by urllib. Prints what arrives as lines of JSON:
{client, name, id, data}; the first line of a client has the name "version".
Runs until it is killed.

    python3 clients.py URL CHANNEL
"""

import http.client
import json
import platform
import sys
import threading
import time
import urllib.error
import urllib.request

base, channel = sys.argv[1:3]
printing = threading.Lock()


def tell(client, name, id, data):
    with printing:
        print(json.dumps({"client": client, "name": name, "id": id, "data": data}), flush=True)


def stream(client):
    """Reads an event stream; comes back with the last id whenever it breaks off."""
    last, retry = "", 0.3
    while True:
        try:
            connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=15)
            headers = {"Last-Event-ID": last} if last else {}
            connection.request("GET", f"/v1/sse?channel={channel}&heartbeat=7s", headers=headers)
            name, data = "message", []
            for line in iter(connection.getresponse().readline, b""):
                field, _, value = line.decode().rstrip("\n").partition(":")
                value = value.removeprefix(" ")
                if line == b"\n":
                    if data:
                        tell(client, name, last, "\n".join(data))
                    name, data = "message", []
                elif field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif field == "id":
                    last = value
                elif field == "retry":
                    retry = int(value) / 1000
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(retry)


def poll(client):
    """Polls with the cursor of the last answer."""
    cursor, retry = "", 0.3
    while True:
        try:
            url = f"{base}/v1/poll?channel={channel}&timeout=5s&lastEventId={cursor}"
            with urllib.request.urlopen(url, timeout=15) as res:
                answer = json.load(res)
        except (OSError, http.client.HTTPException):
            time.sleep(retry)
            continue
        if not cursor:
            tell(client, "rejoin.ready", answer["cursor"], "")
        for gap in answer["gaps"]:
            tell(client, "rejoin.gap", "", json.dumps(gap))
        for m in answer["messages"]:
            tell(client, m.get("event", "message"), m["id"], m["payload"])
        cursor, retry = answer["cursor"], answer["retry"] / 1000


threads = [
    threading.Thread(target=run, args=[client], daemon=True)
    for client, run in [("Python: http.client", stream), ("Python: urllib, long-poll", poll)]
]
for thread, client in zip(threads, ["Python: http.client", "Python: urllib, long-poll"]):
    tell(client, "version", "", platform.python_version())
    thread.start()
for thread in threads:
    thread.join()
