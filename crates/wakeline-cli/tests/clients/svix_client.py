"""Tests a running server with the unchanged published Svix SDK (PyPI: svix).

Usage: python svix_client.py URL API_KEY. Exits 0 and prints the number of checks if all hold.

Whatever a receiver gets is verified with the published packages standardwebhooks and svix, and
ed25519 signatures with cryptography.
"""

import asyncio
import base64
import json
import sys
import threading
import time
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import standardwebhooks
import svix
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from svix.api import (
    ApplicationCreateOptions,
    ApplicationIn,
    ApplicationListOptions,
    ApplicationPatch,
    BulkReplayIn,
    EndpointHeadersIn,
    EndpointHeadersPatchIn,
    EndpointIn,
    EndpointListOptions,
    EndpointPatch,
    EndpointSecretRotateIn,
    EndpointUpsertIn,
    EventExampleIn,
    EventTypeDeleteOptions,
    EventTypeIn,
    EventTypeListOptions,
    EventTypePatch,
    EventTypeUpsertIn,
    MessageAttemptListAttemptedMessagesOptions,
    MessageAttemptListByEndpointOptions,
    MessageAttemptListByMsgOptions,
    MessageAttemptTriggerType,
    MessageCreateOptions,
    MessageGetOptions,
    MessageIn,
    MessageListOptions,
    MessagePrecheckIn,
    MessageStatus,
    OperationalWebhookEndpointHeadersIn,
    OperationalWebhookEndpointIn,
    OperationalWebhookEndpointSecretIn,
    OperationalWebhookEndpointUpsertIn,
    Ordering,
    RecoverIn,
    ReplayIn,
    StatusCodeClass,
)
from svix.api.message import message_in_raw
from svix.exceptions import HttpError, HTTPValidationError

WAIT_SECS = 30
CHECKS = 0


def check(condition, what):
    global CHECKS
    CHECKS += 1
    if not condition:
        raise AssertionError(what)


def name(base):
    return f"{base}-py-{uuid.uuid4().hex[:8]}"


def until(what, fetch):
    """Calls a function until its result is true, and returns the result."""
    end = time.monotonic() + WAIT_SECS
    while True:
        answer = fetch()
        if answer:
            return answer
        check(time.monotonic() < end, f"{what} does not come in time")
        time.sleep(0.02)


def refused(call, code, status):
    """Checks the error that the SDK raises for a refused request."""
    try:
        answer = call()
    except HttpError as error:
        check((error.status_code, error.code) == (status, code), error)
        check(isinstance(error.detail, str) and error.detail, error)
        return error
    raise AssertionError(f"not refused: {answer}")


def invalid(call, *place):
    """Checks the error that the SDK raises for an invalid request."""
    try:
        answer = call()
    except HTTPValidationError as error:
        check(error.status_code == 422, error)
        check(error.detail[0].loc == list(place), error)
        check(error.detail[0].msg and error.detail[0].type, error)
        return
    raise AssertionError(f"not refused: {answer}")


class Receiver:
    """Records requests by their path, and answers with configured statuses."""

    def __init__(self):
        self.answers = {}
        self.came = {}
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.changed:
                    status = receiver.answers.get(self.path, 200)
                    kept = receiver.came.setdefault(self.path, [])
                    kept.append((dict(self.headers.items()), body))
                    receiver.changed.notify_all()
                answer = b'{"answer": "of the receiver"}'
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def take(self, path, wanted=lambda request: True):
        """Removes and returns the oldest matching request to a path."""
        def found():
            kept = self.came.get(path, [])
            return next((request for request in kept if wanted(request)), None)

        with self.changed:
            came = self.changed.wait_for(lambda: found() is not None, WAIT_SECS)
            check(came, f"nothing comes to {path}")
            request = found()
            self.came[path].remove(request)
            return request


def verifies(request, secret):
    """Returns whether the signature is valid. Both packages must agree."""
    headers, body = request
    minds = set()
    try:
        payload = standardwebhooks.Webhook(secret).verify(body, headers)
        check(payload == json.loads(body), payload)
        minds.add(True)
    except standardwebhooks.WebhookVerificationError:
        minds.add(False)
    try:
        svix.Webhook(secret).verify(body, headers)
        minds.add(True)
    except svix.WebhookVerificationError:
        minds.add(False)
    check(len(minds) == 1, "the packages differ")
    return minds.pop()


def verified(request, secret):
    """Returns the payload of a request. The signature must be valid for this request only."""
    headers, body = request
    check(verifies(request, secret), headers)
    check(not verifies((headers, body + b" "), secret), "a changed body")
    for header in ["webhook-id", "webhook-timestamp"]:
        check(not verifies(({**headers, header: "1"}, body), secret), f"a changed {header}")
    return json.loads(body)


def verifies_asymmetric(request, public):
    headers, body = request
    check(public.startswith("whpk_"), public)
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public[len("whpk_") :]))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for signature in headers["webhook-signature"].split(" "):
        version, value = signature.split(",")
        if version == "v1a":
            try:
                key.verify(base64.b64decode(value), signed)
                return True
            except InvalidSignature:
                pass
    return False


class Suite:
    def __init__(self, url, api_key):
        self.url, self.api_key = url, api_key
        self.api = svix.Svix(api_key, svix.SvixOptions(server_url=url))
        self.receiver = Receiver()

    def own(self, method, path, body):
        """Calls a route that only this server has."""
        headers = {"authorization": f"Bearer {self.api_key}", "content-type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=WAIT_SECS) as response:
            return json.load(response)

    def app(self):
        uid = name("app")
        self.api.application.create(ApplicationIn(name="Ada Ltd", uid=uid))
        return uid

    def endpoint(self, app, path, **more):
        made = EndpointIn(url=self.receiver.url(path), **more)
        return self.api.endpoint.create(app, made)

    def one_attempt_only(self, app, endpoint):
        path = f"/api/v1/app/{app}/endpoint/{endpoint}"
        self.own("PATCH", path, {"delivery": {"scheduleSeconds": [], "breaker": None}})

    def send(self, app, event_type="invoice.paid", payload=None, **more):
        message = MessageIn(event_type=event_type, payload=payload or {"n": 1}, **more)
        return self.api.message.create(app, message)

    def until_stats(self, app, endpoint, **wanted):
        def reached():
            stats = self.api.endpoint.get_stats(app, endpoint).model_dump()
            return all(stats[what] == count for what, count in wanted.items())

        until(f"{wanted} of {endpoint}", reached)

    def until_finished(self, task):
        def finished():
            found = self.api.background_task.get(task)
            return found if found.status == "finished" else None

        return until(f"the end of {task}", finished)

    def pages(self, fetch, limit=3):
        """Returns the ids of a list. Checks that reading backwards gives the same ids."""
        forwards, iterator = [], None
        while True:
            page = fetch(limit, iterator)
            check(len(page.data) <= limit, page)
            forwards.append([item.id for item in page.data])
            if page.done:
                break
            iterator = page.iterator
        backwards, iterator = [forwards[-1]], page.prev_iterator
        while len(forwards) > 1:
            page = fetch(limit, iterator)
            backwards.insert(0, [item.id for item in page.data])
            if page.done:
                break
            iterator = page.prev_iterator
        ids = [found for page in forwards for found in page]
        check(ids == [found for page in backwards for found in page], (forwards, backwards))
        check(len(set(ids)) == len(ids), "nothing comes twice")
        return ids

    # Each of the following methods is a test.

    def applications(self):
        api, uid = self.api.application, name("app")
        made = api.create(ApplicationIn(name="Ada", uid=uid, metadata={"tier": "1"}))
        check(made.id.startswith("app_") and made.uid == uid and made.name == "Ada", made)
        check(made.metadata == {"tier": "1"}, made)
        age = datetime.now(timezone.utc) - made.created_at
        check(abs(age) < timedelta(minutes=5), made)
        check(api.get(uid) == api.get(made.id) == made, made)
        found = api.get_or_create(ApplicationIn(name="Other", uid=uid))
        check(found == made, found)
        other = api.get_or_create(ApplicationIn(name="New", uid=name("app")))
        check(other.id != made.id and other.name == "New", other)
        refused(lambda: api.create(ApplicationIn(name="Twice", uid=uid)), "conflict", 409)

        updated = api.upsert(uid, ApplicationIn(name="Bea", uid=uid, throttle_rate=7))
        check((updated.id, updated.name, updated.throttle_rate) == (made.id, "Bea", 7), updated)
        check(updated.metadata == {}, updated)
        patched = api.patch(uid, ApplicationPatch(name="Cy", metadata={"a": "b"}))
        check((patched.name, patched.throttle_rate) == ("Cy", 7), patched)
        check(patched.metadata == {"a": "b"}, patched)
        check(patched.created_at == made.created_at <= patched.updated_at, patched)
        own = name("app")
        check(api.upsert(own, ApplicationIn(name="Made")).uid == own, own)

        key = ApplicationCreateOptions(idempotency_key=name("key"))
        uid2 = name("app")
        one, two = (api.create(ApplicationIn(name="Once", uid=uid2), key) for _ in range(2))
        check(one.id == two.id, two)
        other = ApplicationIn(name="Another", uid=uid2)
        check("idempotency" in refused(lambda: api.create(other, key), "conflict", 409).detail, key)

        api.delete(uid)
        refused(lambda: api.get(uid), "not_found", 404)
        refused(lambda: api.delete(uid), "not_found", 404)
        again = api.create(ApplicationIn(name="Ada", uid=uid))
        check(again.id != made.id, "an own id is free again")

    def application_lists(self):
        made = [self.api.application.get(self.app()).id for _ in range(7)]

        def fetch(limit, iterator, order=Ordering.ASCENDING):
            options = ApplicationListOptions(limit=limit, iterator=iterator, order=order)
            return self.api.application.list(options)

        # Other clients create applications at the same time: only those of this test are compared.
        ours = [found for found in self.pages(fetch, limit=4) if found in made]
        check(ours == made, ours)
        newest = fetch(250, None, Ordering.DESCENDING)
        ours = [found.id for found in newest.data if found.id in made]
        check(ours == made[::-1], ours)
        invalid(lambda: fetch(0, None), "query", "limit")
        invalid(lambda: fetch(5, "nonsense"), "query", "iterator")

    def event_types(self):
        api, kind = self.api.event_type, name("order").replace("-", "_")
        schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        schema["examples"] = [{"n": 41}, {"n": 42}]
        made = api.create(EventTypeIn(name=kind, description="Paid", schemas={"1": schema}))
        check((made.name, made.description, made.archived) == (kind, "Paid", False), made)
        check(made.schemas == {"1": schema} and api.get(kind) == made, made)
        twice = EventTypeIn(name=kind, description="Twice")
        refused(lambda: api.create(twice), "conflict", 409)
        patched = api.patch(kind, EventTypePatch(deprecated=True, group_name="orders"))
        check((patched.description, patched.deprecated) == ("Paid", True), patched)
        check(patched.group_name == "orders" and patched.schemas == {"1": schema}, patched)
        replaced = api.upsert(kind, EventTypeUpsertIn(description="Other", feature_flags=["x"]))
        check((replaced.description, replaced.deprecated) == ("Other", False), replaced)
        check(replaced.feature_flags == ["x"] and not replaced.schemas, replaced)

        def listed(**options):
            page = api.list(EventTypeListOptions(limit=250, **options))
            return [found.name for found in page.data]

        check(kind in listed(), "listed")
        api.delete(kind)
        check(api.get(kind).archived, "archived")
        check(kind not in listed() and kind in listed(include_archived=True), "archived")
        api.delete(kind, EventTypeDeleteOptions(expunge=True))
        refused(lambda: api.get(kind), "not_found", 404)
        invalid(lambda: api.create(EventTypeIn(name="a b", description="")), "body", "name")

    def endpoints(self):
        api, app, uid = self.api.endpoint, self.app(), name("ep")
        made = self.endpoint(
            app, "/endpoints", uid=uid, description="Main", event_types=["invoice.paid"],
            channels=["eu"], throttle_rate=50, metadata={"a": "b"},
        )
        check(made.id.startswith("ep_") and made.uid == uid and made.description == "Main", made)
        check(made.event_types == ["invoice.paid"] and made.channels == ["eu"], made)
        check((made.throttle_rate, made.disabled, made.metadata) == (50, False, {"a": "b"}), made)
        check(api.get(app, uid) == api.get(app, made.id) == made, made)
        url = self.receiver.url("/endpoints")
        refused(lambda: api.create(app, EndpointIn(url=url, uid=uid)), "conflict", 409)

        replaced = api.upsert(app, uid, EndpointUpsertIn(url=url, uid=uid, description="New"))
        check((replaced.id, replaced.description) == (made.id, "New"), replaced)
        check(replaced.event_types is None and replaced.channels is None, replaced)
        check(replaced.throttle_rate is None and replaced.metadata == {}, replaced)
        patched = api.patch(app, uid, EndpointPatch(event_types=["a"], disabled=True))
        check((patched.event_types, patched.disabled) == (["a"], True), patched)
        check((patched.description, patched.url) == ("New", url), patched)
        check(api.patch(app, uid, EndpointPatch(event_types=None)).event_types is None, "all")

        ids = [made.id] + [self.endpoint(app, "/endpoints", disabled=True).id for _ in range(6)]

        def fetch(limit, iterator):
            return api.list(app, EndpointListOptions(limit=limit, iterator=iterator))

        check(self.pages(fetch) == ids, ids)
        api.delete(app, uid)
        refused(lambda: api.get(app, uid), "not_found", 404)
        check(len(api.list(app).data) == 6, "one is gone")
        invalid(lambda: api.create(app, EndpointIn(url="ftp://example.com")), "body", "url")
        inner = EndpointIn(url="http://10.0.0.1/")
        invalid(lambda: api.create(app, inner), "body", "url")
        refused(lambda: api.get(app, "ep_none"), "not_found", 404)
        refused(lambda: api.list("app_none"), "not_found", 404)

    def headers(self):
        api, app = self.api.endpoint, self.app()
        made = self.endpoint(app, "/headers", headers={"x-first": "1", "authorization": "secret"})
        found = api.get_headers(app, made.id)
        check(found.headers == {"x-first": "1"}, found)
        check(found.sensitive == ["authorization"], found)
        api.set_headers(app, made.id, EndpointHeadersIn(headers={"x-second": "2"}))
        check(api.get_headers(app, made.id).headers == {"x-second": "2"}, "replaced")
        patch = EndpointHeadersPatchIn(headers={"x-third": "3"}, delete_headers=["x-second"])
        api.patch_headers(app, made.id, patch)
        check(api.get_headers(app, made.id).headers == {"x-third": "3"}, "patched")
        wrong = EndpointHeadersIn(headers={"webhook-id": "mine"})
        invalid(lambda: api.set_headers(app, made.id, wrong), "body", "headers")
        self.send(app)
        sent = self.receiver.take("/headers")[0]
        check(sent.get("x-third") == "3" and "x-second" not in sent, sent)

    def messages(self):
        api, app = self.api.message, self.app()
        path = "/messages"
        made = self.endpoint(app, path, event_types=["invoice.*"])
        secret = self.api.endpoint.get_secret(app, made.id).key
        payload = {"text": "grün ✓", "n": 1.5, "list": [None, True]}
        event = name("event")
        sent = self.send(app, payload=payload, event_id=event, channels=["eu"])
        check(sent.id.startswith("msg_") and sent.event_id == event, sent)
        check(sent.channels == ["eu"] and sent.event_type == "invoice.paid", sent)
        check(sent.payload == {}, "the SDK requests no content")
        request = self.receiver.take(path)
        check(verified(request, secret) == payload, request)
        check(request[0]["webhook-id"] == sent.id, request)
        check(request[0]["content-type"] == "application/json", request)
        with_content = MessageCreateOptions(with_content=True)
        other = MessageIn(event_type="order.made", payload={"n": 2})
        answer = api.create(app, other, with_content)
        check(answer.payload == {"n": 2}, answer)

        check(api.get(app, event).id == sent.id and api.get(app, sent.id).payload == {}, event)
        found = api.get(app, event, MessageGetOptions(with_content=True))
        check(found.payload == payload, found)
        taken = refused(lambda: self.send(app, event_id=event), "conflict", 409)
        check(sent.id in taken.detail, taken)
        key = MessageCreateOptions(idempotency_key=name("key"))
        once = MessageIn(event_type="order.made", payload={"n": 3})
        check(api.create(app, once, key).id == api.create(app, once, key).id, "one message")
        twice = MessageIn(event_type="order.made", payload={"n": 4})
        refused(lambda: api.create(app, twice, key), "conflict", 409)

        ids = [found.id for found in api.list(app, MessageListOptions(limit=250)).data]
        check(len(ids) == 3 and ids[-1] == sent.id, ids)
        for n in range(4):
            ids.insert(0, self.send(app, "order.made", {"n": n}).id)

        def fetch(limit, iterator):
            return api.list(app, MessageListOptions(limit=limit, iterator=iterator))

        check(self.pages(fetch) == ids, "newest first")
        listed = api.list(app, MessageListOptions(event_types=["invoice.paid"], with_content=True))
        check([found.payload for found in listed.data] == [payload], listed)
        listed = api.list(app, MessageListOptions(channel="eu"))
        check([found.id for found in listed.data] == [sent.id], listed)
        past = sent.timestamp - timedelta(hours=1)
        check(api.list(app, MessageListOptions(before=past)).data == [], "none so old")
        check(len(api.list(app, MessageListOptions(after=past)).data) == 7, "all are younger")

        raw = '{ "spaced" :  1e2 }'
        api.create(app, message_in_raw("invoice.raw", raw))
        check(self.receiver.take(path)[1] == raw.encode(), "byte by byte")
        precheck = MessagePrecheckIn(event_type="invoice.paid")
        check(api.precheck(app, precheck).active, "an endpoint is subscribed")
        precheck = MessagePrecheckIn(event_type="not.subscribed")
        check(not api.precheck(app, precheck).active, "no endpoint is subscribed")
        api.expunge_content(app, event)
        found = api.get(app, event, MessageGetOptions(with_content=True))
        check(found.payload == {"expired": True}, found)
        fresh = name("app")
        new = ApplicationIn(name="By a message", uid=fresh)
        self.send(fresh, application=new)
        check(self.api.application.get(fresh).name == "By a message", fresh)
        invalid(lambda: self.send(app, "a b"), "body", "eventType")
        later = datetime.now(timezone.utc) + timedelta(days=1)
        invalid(lambda: self.send(app, deliver_at=later), "body", "deliverAt")
        invalid(lambda: self.send(app, tags=["x"]), "body", "tags")
        refused(lambda: self.send(name("missing")), "not_found", 404)
        refused(lambda: api.get(app, name("nothing")), "not_found", 404)

    def channels(self):
        app = self.app()
        self.endpoint(app, "/channel/eu", channels=["eu"])
        self.endpoint(app, "/channel/all")
        self.send(app, payload={"n": 1}, channels=["us"])
        self.send(app, payload={"n": 2}, channels=["eu", "us"])
        check(json.loads(self.receiver.take("/channel/eu")[1]) == {"n": 2}, "only its own")
        both = [json.loads(self.receiver.take("/channel/all")[1])["n"] for _ in range(2)]
        check(sorted(both) == [1, 2], both)

    def attempts(self):
        api, app, path = self.api.message_attempt, self.app(), "/attempts"
        good, bad = self.endpoint(app, "/attempts/good"), self.endpoint(app, path)
        self.one_attempt_only(app, bad.id)
        self.receiver.answers[path] = 500
        sent = self.send(app, payload={"n": 9})
        self.until_stats(app, good.id, success=1, fail=0)
        self.until_stats(app, bad.id, success=0, fail=1)

        by_message = api.list_by_msg(app, sent.id).data
        check({found.endpoint_id for found in by_message} == {good.id, bad.id}, by_message)
        options = MessageAttemptListByMsgOptions(endpoint_id=good.id)
        (success,) = api.list_by_msg(app, sent.id, options).data
        check(success.status == MessageStatus.SUCCESS and success.status_text == "success", success)
        check((success.response_status_code, success.url) == (200, good.url), success)
        check(success.response == "", "the SDK requests no content")
        options = MessageAttemptListByMsgOptions(status=MessageStatus.FAIL, with_content=True)
        (failed,) = api.list_by_msg(app, sent.id, options).data
        check(failed.endpoint_id == bad.id and failed.response_status_code == 500, failed)
        check(json.loads(failed.response) == {"answer": "of the receiver"}, failed)
        check(failed.trigger_type == MessageAttemptTriggerType.SCHEDULED, failed)
        found = api.get(app, sent.id, failed.id)
        check((found.id, found.status) == (failed.id, MessageStatus.FAIL), found)

        def by_endpoint(**options):
            options = MessageAttemptListByEndpointOptions(**options)
            return api.list_by_endpoint(app, bad.id, options).data

        (attempt,) = by_endpoint(with_msg=True, status_code_class=StatusCodeClass.CODE5XX)
        check(attempt.id == failed.id and attempt.msg.id == sent.id, attempt)
        check(by_endpoint(status=MessageStatus.SUCCESS) == [], "none")
        check(by_endpoint(status_code_class=StatusCodeClass.CODE2XX) == [], "none")
        check(by_endpoint(event_types=["order.made"]) == [], "none")
        check(by_endpoint(before=sent.timestamp - timedelta(hours=1)) == [], "none so old")
        messages = api.list_attempted_messages(app, bad.id).data
        check([(m.id, m.status) for m in messages] == [(sent.id, MessageStatus.FAIL)], messages)
        options = MessageAttemptListAttemptedMessagesOptions(status=MessageStatus.SUCCESS)
        check(api.list_attempted_messages(app, bad.id, options).data == [], "none")
        targets = api.list_attempted_destinations(app, sent.id).data
        standing = {target.id: target.status for target in targets}
        check(standing == {good.id: MessageStatus.SUCCESS, bad.id: MessageStatus.FAIL}, standing)

        self.receiver.answers[path] = 200
        api.resend(app, sent.id, bad.id)
        self.until_stats(app, bad.id, success=1, fail=0)
        resent = by_endpoint(status=MessageStatus.SUCCESS)
        triggers = [found.trigger_type for found in resent]
        check(triggers == [MessageAttemptTriggerType.MANUAL], resent)
        ids = [self.receiver.take(path)[0]["webhook-id"] for _ in range(2)]
        check(ids == [sent.id] * 2, "the id stays over all attempts")
        for _ in range(5):
            self.send(app)
        self.until_stats(app, good.id, success=6)

        def fetch(limit, iterator):
            options = MessageAttemptListByEndpointOptions(limit=limit, iterator=iterator)
            return api.list_by_endpoint(app, good.id, options)

        check(len(self.pages(fetch, limit=2)) == 6, "all attempts")
        api.expunge_content(app, sent.id, failed.id)
        options = MessageAttemptListByMsgOptions(status=MessageStatus.FAIL, with_content=True)
        check(api.list_by_msg(app, sent.id, options).data[0].response != failed.response, "gone")
        refused(lambda: api.get(app, sent.id, "atmpt_none"), "not_found", 404)
        refused(lambda: api.resend(app, "msg_none", bad.id), "not_found", 404)

    def recovery(self):
        api, app, path = self.api.endpoint, self.app(), "/recovery"
        made = self.endpoint(app, path)
        self.one_attempt_only(app, made.id)
        self.receiver.answers[path] = 503
        since = datetime.now(timezone.utc) - timedelta(minutes=5)
        ids = [self.send(app, payload={"n": n}).id for n in range(5)]
        self.until_stats(app, made.id, fail=5)
        self.receiver.answers[path] = 200
        task = api.recover(app, made.id, RecoverIn(since=since))
        check(task.task == "endpoint.recover" and task.id, task)
        finished = self.until_finished(task.id)
        check((finished.id, finished.task) == (task.id, "endpoint.recover"), finished)
        check(finished.data["changed"] == 5, finished)
        self.until_stats(app, made.id, success=5, fail=0)
        secret = api.get_secret(app, made.id).key
        came = [self.receiver.take(path) for _ in range(10)]
        for request in came:
            verified(request, secret)
        check(sorted(request[0]["webhook-id"] for request in came) == sorted(ids * 2), "each twice")
        nothing = self.until_finished(api.recover(app, made.id, RecoverIn(since=since)).id)
        check(nothing.data["changed"] == 0, nothing)

        late = self.endpoint(app, "/recovery/late")
        task = api.replay_missing(app, late.id, ReplayIn(since=since))
        check(task.task == "endpoint.replay", task)
        check(self.until_finished(task.id).data["changed"] == 5, "all that it missed")
        missed = {self.receiver.take("/recovery/late")[0]["webhook-id"] for _ in range(5)}
        check(missed == set(ids), missed)
        bulk = BulkReplayIn(since=since, status=MessageStatus.SUCCESS)
        self.until_stats(app, late.id, success=5)
        task = api.bulk_replay(app, late.id, bulk)
        check(task.task == "endpoint.bulk-replay", task)
        check(self.until_finished(task.id).data["changed"] == 5, "all once more")
        for _ in range(5):
            self.receiver.take("/recovery/late")
        refused(lambda: self.api.background_task.get("qtask_none"), "not_found", 404)

    def examples(self):
        api, app, path = self.api.endpoint, self.app(), "/examples"
        made = self.endpoint(app, path, event_types=["something.else"])
        secret = api.get_secret(app, made.id).key
        kind = name("example").replace("-", "_")
        schema = {"type": "object", "examples": [{"n": 41}, {"n": 42}]}
        made_type = EventTypeIn(name=kind, description="", schemas={"1": schema})
        self.api.event_type.create(made_type)
        for more, wanted in [
            ({}, {"n": 41}),
            ({"example_index": 1}, {"n": 42}),
            ({"payload": {"mine": True}}, {"mine": True}),
        ]:
            sent = api.send_example(app, made.id, EventExampleIn(event_type=kind, **more))
            check(sent.event_type == kind, sent)
            check(verified(self.receiver.take(path), secret) == wanted, wanted)
        beyond = EventExampleIn(event_type=kind, example_index=2)
        invalid(lambda: api.send_example(app, made.id, beyond), "body", "exampleIndex")

    def rotation(self):
        api, app, path = self.api.endpoint, self.app(), "/rotation"
        old = "whsec_" + base64.b64encode(uuid.uuid4().bytes + uuid.uuid4().bytes).decode()
        made = self.endpoint(app, path, secret=old)
        check(api.get_secret(app, made.id).key == old, "the key that was given")
        self.send(app)
        verified(self.receiver.take(path), old)

        new = api.rotate_secret(app, made.id, EndpointSecretRotateIn()).key
        check(new != old and api.get_secret(app, made.id).key == new, "a new key")
        self.send(app)
        request = self.receiver.take(path)
        verified(request, old)
        verified(request, new)
        check(len(request[0]["webhook-signature"].split(" ")) == 2, request)

        private = "whsk_" + base64.b64encode(uuid.uuid4().bytes + uuid.uuid4().bytes).decode()
        rotate = EndpointSecretRotateIn(key=private, grace_period_seconds=3600)
        public = api.rotate_secret(app, made.id, rotate).key
        check(api.get_secret(app, made.id).key == public, "the public half")
        self.send(app)
        request = self.receiver.take(path)
        check(verifies_asymmetric(request, public), request)
        changed = (request[0], request[1] + b" ")
        check(not verifies_asymmetric(changed, public), "a changed body")
        for key in [old, new]:
            verified(request, key)

        self.rotation_ends(app)

    def rotation_ends(self, app):
        api, path = self.api.endpoint, "/rotation/ends"
        made = self.endpoint(app, path, event_types=["ends"])
        old = api.get_secret(app, made.id).key
        rotate = EndpointSecretRotateIn(grace_period_seconds=1)
        new = api.rotate_secret(app, made.id, rotate).key

        def old_is_over():
            self.send(app, "ends")
            request = self.receiver.take(path)
            verified(request, new)
            return not verifies(request, old)

        until("the end of the grace", old_is_over)
        api.rotate_secret(app, made.id, EndpointSecretRotateIn(grace_period_seconds=0))
        last = api.get_secret(app, made.id).key
        self.send(app, "ends")
        request = self.receiver.take(path)
        verified(request, last)
        check(not verifies(request, new), "without grace an old key ends at once")
        wrong = EndpointSecretRotateIn(key="whsec_short")
        invalid(lambda: api.rotate_secret(app, made.id, wrong), "body", "key")
        for _ in range(10):
            api.rotate_secret(app, made.id, EndpointSecretRotateIn())
        many = EndpointSecretRotateIn()
        refused(lambda: api.rotate_secret(app, made.id, many), "conflict", 409)

    def svix_headers(self):
        app, path = self.app(), "/svix-headers"
        made = self.endpoint(app, path)
        style = {"delivery": {"headerStyle": "svix"}}
        self.own("PATCH", f"/api/v1/app/{app}/endpoint/{made.id}", style)
        secret = self.api.endpoint.get_secret(app, made.id).key
        sent = self.send(app)
        headers, body = self.receiver.take(path)
        check(headers["svix-id"] == sent.id and "webhook-id" not in headers, headers)
        svix.Webhook(secret).verify(body, headers)

    def operational(self):
        api = self.api.operational_webhook.endpoint
        path = "/" + name("operational")
        url = self.receiver.url(path)
        new = OperationalWebhookEndpointIn(url=url, uid=name("op"), description="Pager")
        made = api.create(new)
        check((made.url, made.description) == (url, "Pager"), made)
        check(api.get(made.uid) == made, made)
        check(made.id in [found.id for found in api.list().data], "listed")
        headers = OperationalWebhookEndpointHeadersIn(headers={"x-pager": "1"})
        api.set_headers(made.id, headers)
        check(api.get_headers(made.id).headers == {"x-pager": "1"}, "headers")
        before = api.get_secret(made.id).key
        api.rotate_secret(made.id, OperationalWebhookEndpointSecretIn())
        secret = api.get_secret(made.id).key
        check(secret != before, "rotated")

        app = self.app()
        gone = self.endpoint(app, "/operational/gone")
        self.receiver.answers["/operational/gone"] = 410
        sent = self.send(app)

        def operational_event(kind):
            def ours(request):
                body = json.loads(request[1])
                return body["type"] == kind and body["data"]["endpointId"] == gone.id

            request = self.receiver.take(path, ours)
            check(request[0]["x-pager"] == "1", request)
            verified(request, before)
            return verified(request, secret)["data"]

        check(operational_event("endpoint.disabled")["appId"].startswith("app_"), "disabled")
        exhausted = operational_event("message.attempt.exhausted")
        check(exhausted["msgId"] == sent.id, exhausted)
        check(exhausted["lastAttempt"]["responseStatusCode"] == 410, exhausted)
        check(self.api.endpoint.get(app, gone.id).disabled, "410 disables")
        resend = self.api.message_attempt.resend
        refused(lambda: resend(app, sent.id, gone.id), "conflict", 409)
        self.api.endpoint.patch(app, gone.id, EndpointPatch(disabled=False))
        self.receiver.answers["/operational/gone"] = 204
        resend(app, sent.id, gone.id)
        self.until_stats(app, gone.id, success=1)

        upsert = OperationalWebhookEndpointUpsertIn(url=url, uid=made.uid, disabled=True)
        check(api.upsert(made.id, upsert).disabled, "off")
        api.delete(made.id)
        refused(lambda: api.get(made.id), "not_found", 404)

    def access(self):
        self.api.health.get()
        stranger = svix.Svix("nonsense", svix.SvixOptions(server_url=self.url))
        refused(lambda: stranger.application.list(), "unauthorized", 401)

    def asynchronous(self):
        async def main():
            api = svix.SvixAsync(self.api_key, svix.SvixOptions(server_url=self.url))
            uid = name("app")
            await api.application.create(ApplicationIn(name="Async", uid=uid))
            url = self.receiver.url("/async")
            made = await api.endpoint.create(uid, EndpointIn(url=url))
            secret = (await api.endpoint.get_secret(uid, made.id)).key
            messages = [MessageIn(event_type="a", payload={"n": n}) for n in range(20)]
            sent = await asyncio.gather(*(api.message.create(uid, m) for m in messages))
            return {message.id for message in sent}, secret

        ids, secret = asyncio.run(main())
        came = [self.receiver.take("/async") for _ in ids]
        for request in came:
            verified(request, secret)
        check({request[0]["webhook-id"] for request in came} == ids, "each once")


def vectors():
    """The published test vectors of the signature."""
    for key, message, moment, body, signature in [
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1649367553,
            '{"email":"test@example.com","username":"test_user"}',
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            '{"test": 2432232314}',
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
    ]:
        moment = datetime.fromtimestamp(moment, timezone.utc)
        for package in [standardwebhooks.Webhook, svix.Webhook]:
            check(package(key).sign(message, moment, body) == signature, key)


def main():
    url, api_key = sys.argv[1:]
    vectors()
    suite = Suite(url, api_key)
    parts = [
        suite.access, suite.applications, suite.application_lists, suite.event_types,
        suite.endpoints, suite.headers, suite.messages, suite.channels, suite.attempts,
        suite.recovery, suite.examples, suite.rotation, suite.svix_headers, suite.operational,
        suite.asynchronous,
    ]
    for part in parts:
        start, before = time.monotonic(), CHECKS
        part()
        took = int((time.monotonic() - start) * 1000)
        print(f"{part.__name__}: {CHECKS - before} checks in {took} ms", flush=True)
    print(f"svix {svix.__version__} from PyPI: all {CHECKS} checks hold")


if __name__ == "__main__":
    main()
