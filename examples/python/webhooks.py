"""Sends a webhook event to an endpoint of this program, with the published Svix SDK (PyPI: svix).

The server sends requests to public addresses only: to call this program on loopback, it must be
started with `--hook-allow 127.0.0.0/8`.

Usage: python webhooks.py [URL], with the API key in WAKELINE_API_KEY if the server needs one.
"""

import json
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

import svix

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7632"
SDK = svix.Svix(os.environ.get("WAKELINE_API_KEY", "none"), svix.SvixOptions(server_url=URL))

received = threading.Event()


class Receiver(BaseHTTPRequestHandler):
    """The receiver that a customer runs: it verifies the signature, then handles the event."""

    secret = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        svix.Webhook(self.secret).verify(body, dict(self.headers))  # raises an error if invalid
        print(f"received {json.loads(body)} with a valid signature")
        self.send_response(204)
        self.end_headers()
        received.set()

    def log_message(self, *_):
        pass


receiver = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()

application = SDK.application.create(svix.api.ApplicationIn(name="Carol Ltd"))
endpoint = SDK.endpoint.create(
    application.id,
    svix.api.EndpointIn(url=f"http://127.0.0.1:{receiver.server_port}/hooks"),
)
Receiver.secret = SDK.endpoint.get_secret(application.id, endpoint.id).key

message = SDK.message.create(
    application.id,
    svix.api.MessageIn(
        event_type="invoice.paid", event_id=uuid.uuid4().hex, payload={"invoice": 9}
    ),
)
if not received.wait(timeout=30):
    sys.exit("no request arrived: was the server started with --hook-allow 127.0.0.0/8?")
print(f"message {message.id} was delivered")
SDK.application.delete(application.id)
