"""Starts an orchestration, sends it an event and waits for its result, with the standard library.

The worker order_worker must run on the server's store.

Usage: python workflow.py [URL], with the API key in WAKELINE_API_KEY if the server needs one.
"""

import json
import os
import sys
import urllib.request
import uuid

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7632"


def call(method, path, body=None):
    request = urllib.request.Request(f"{URL}/api/v1/{path}", method=method)
    request.add_header("content-type", "application/json")
    request.add_header("authorization", f"Bearer {os.environ.get('WAKELINE_API_KEY', '')}")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=60) as response:
        text = response.read()
        return json.loads(text) if text else None


def wait(instance):
    """Waits until the instance ends. The server holds each request for up to 30 seconds."""
    while True:
        answer = call("GET", f"orchestrations/{instance}/wait?timeout=30000")
        if answer and answer["state"] not in ("pending", "running"):
            return answer


# The webhook event that the order sends needs an application for its customer.
call("POST", "app?get_if_exists=true", {"name": "Bob Ltd", "uid": "bob"})

# A second start with the same id has no effect, so the request can be repeated safely.
instance = f"order-{uuid.uuid4().hex[:8]}"
order = {"id": 8, "customer": "bob", "total": 1700}
call("POST", "orchestrations", {"name": "order", "instance": instance, "input": order})
call("POST", f"orchestrations/{instance}/events/approved", True)

ended = wait(instance)
print(f"{instance} has {ended['state']}: {ended['output']}")
