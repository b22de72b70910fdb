// Tests a running server with the unchanged published Svix SDK (npm: svix).
//
// Usage: NODE_PATH=.../node_modules node svix_client.cjs URL API_KEY. Exits 0 and prints the number
// of checks if all hold.
//
// Received requests are verified with the published packages standardwebhooks and svix, and ed25519
// signatures with node:crypto.
"use strict";

const crypto = require("node:crypto");
const http = require("node:http");
const util = require("node:util");
// Node 18 has this under another name than the SDK expects.
globalThis.crypto ??= crypto.webcrypto;

const standardwebhooks = require("standardwebhooks");
const svix = require("svix");
const { version } = require("svix/package.json");

const WAIT_MS = 30_000;
let checks = 0;

function check(condition, what) {
  checks += 1;
  if (!condition) {
    throw new Error(typeof what === "string" ? what : JSON.stringify(what));
  }
}

function same(found, wanted) {
  const texts = [found, wanted].map((value) => JSON.stringify(value));
  check(util.isDeepStrictEqual(found, wanted), `found ${texts[0]}, not ${texts[1]}`);
}

const name = (base) => `${base}-node-${crypto.randomBytes(4).toString("hex")}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const ago = (minutes) => new Date(Date.now() - minutes * 60_000);
const newKey = (prefix) => prefix + crypto.randomBytes(32).toString("base64");

/** Calls a function until its result is true, and returns the result. */
async function until(what, fetchValue) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const answer = await fetchValue();
    if (answer) return answer;
    check(Date.now() < end, `${what} does not come in time`);
    await pause(20);
  }
}

/** Returns the error that the SDK throws for a refused request. */
async function thrown(promise) {
  let answer;
  try {
    answer = await promise;
  } catch (error) {
    check(error instanceof svix.ApiException, String(error));
    return error;
  }
  throw new Error(`not refused: ${JSON.stringify(answer)}`);
}

async function refused(promise, code, status) {
  const error = await thrown(promise);
  same([error.code, error.body.code], [status, code]);
  check(typeof error.body.detail === "string" && error.body.detail, error.body);
  return error.body;
}

async function invalid(promise, ...place) {
  const error = await thrown(promise);
  check(error.code === 422, error.body);
  const [first] = error.body.detail;
  same(first.loc, place);
  check(first.msg && first.type, first);
}

/** Records requests by their path, and answers with configured statuses. */
class Receiver {
  constructor() {
    this.answers = {};
    this.came = {};
    this.server = http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        const kept = (this.came[request.url] ??= []);
        kept.push({ headers: request.headers, body: Buffer.concat(parts) });
        response.writeHead(this.answers[request.url] ?? 200);
        response.end('{"answer": "of the receiver"}');
      });
    });
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  url(path) {
    return `http://127.0.0.1:${this.server.address().port}${path}`;
  }

  /** Removes and returns the oldest matching request to a path. */
  async take(path, wanted = () => true) {
    const found = () => (this.came[path] ?? []).find(wanted);
    const request = await until(`something for ${path}`, found);
    this.came[path].splice(this.came[path].indexOf(request), 1);
    return request;
  }
}

/** Returns whether the signature is valid. Both packages must agree. */
function verifies({ headers, body }, secret) {
  const results = [standardwebhooks, svix].map((library) => {
    try {
      const payload = new library.Webhook(secret).verify(body.toString(), headers);
      same(payload, JSON.parse(body));
      return true;
    } catch (error) {
      const kinds = [standardwebhooks, svix].map((one) => one.WebhookVerificationError);
      if (kinds.some((kind) => error instanceof kind)) return false;
      throw error;
    }
  });
  check(results[0] === results[1], "the packages differ");
  return results[0];
}

/** Returns the payload of a request. The signature must be valid for this request only. */
function verified(request, secret) {
  const { headers, body } = request;
  check(verifies(request, secret), headers);
  check(!verifies({ headers, body: Buffer.concat([body, Buffer.from(" ")]) }, secret), "body");
  for (const header of ["webhook-id", "webhook-timestamp"]) {
    const changed = { headers: { ...headers, [header]: "1" }, body };
    check(!verifies(changed, secret), `a changed ${header}`);
  }
  return JSON.parse(body);
}

function verifiesAsymmetric({ headers, body }, text) {
  check(text.startsWith("whpk_"), text);
  const bytes = Buffer.from(text.slice("whpk_".length), "base64");
  const jwk = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
  const key = crypto.createPublicKey({ key: jwk, format: "jwk" });
  const head = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
  const signed = Buffer.concat([Buffer.from(head), body]);
  return headers["webhook-signature"].split(" ").some((signature) => {
    const [scheme, value] = signature.split(",");
    return scheme === "v1a" && crypto.verify(null, signed, key, Buffer.from(value, "base64"));
  });
}

class Suite {
  constructor(url, apiKey, receiver) {
    Object.assign(this, { url, apiKey, receiver });
    this.api = new svix.Svix(apiKey, { serverUrl: url });
  }

  /** Calls a route that only this server has. */
  async own(method, path, body) {
    const headers = { authorization: `Bearer ${this.apiKey}`, "content-type": "application/json" };
    const answer = await fetch(this.url + path, { method, headers, body: JSON.stringify(body) });
    check(answer.ok, `${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  async app() {
    const uid = name("app");
    await this.api.application.create({ name: "Ada Ltd", uid });
    return uid;
  }

  endpoint(app, path, more = {}) {
    return this.api.endpoint.create(app, { url: this.receiver.url(path), ...more });
  }

  oneAttemptOnly(app, endpoint) {
    const path = `/api/v1/app/${app}/endpoint/${endpoint}`;
    return this.own("PATCH", path, { delivery: { scheduleSeconds: [], breaker: null } });
  }

  send(app, more = {}) {
    const message = { eventType: "invoice.paid", payload: { n: 1 }, ...more };
    return this.api.message.create(app, message);
  }

  async untilStats(app, endpoint, wanted) {
    await until(`${JSON.stringify(wanted)} of ${endpoint}`, async () => {
      const stats = await this.api.endpoint.getStats(app, endpoint);
      return Object.entries(wanted).every(([what, count]) => stats[what] === count);
    });
  }

  untilFinished(task) {
    return until(`the end of ${task}`, async () => {
      const found = await this.api.backgroundTask.get(task);
      return found.status === "finished" && found;
    });
  }

  /** Returns the ids of a list. Checks that reading backwards gives the same ids. */
  async pages(fetchValue, limit = 3) {
    const forwards = [];
    let page;
    let iterator;
    do {
      page = await fetchValue({ limit, iterator });
      check(page.data.length <= limit, page);
      forwards.push(page.data.map((item) => item.id));
      iterator = page.iterator;
    } while (!page.done);
    const backwards = [forwards.at(-1)];
    iterator = page.prevIterator;
    while (forwards.length > 1) {
      page = await fetchValue({ limit, iterator });
      backwards.unshift(page.data.map((item) => item.id));
      if (page.done) break;
      iterator = page.prevIterator;
    }
    const ids = forwards.flat();
    same(ids, backwards.flat());
    check(new Set(ids).size === ids.length, "nothing comes twice");
    return ids;
  }

  // Each of the following methods is a test.

  async applications() {
    const api = this.api.application;
    const uid = name("app");
    const made = await api.create({ name: "Ada", uid, metadata: { tier: "1" } });
    check(made.id.startsWith("app_") && made.uid === uid && made.name === "Ada", made);
    same(made.metadata, { tier: "1" });
    check(Math.abs(Date.now() - made.createdAt) < 300_000, made);
    same(await api.get(uid), made);
    same(await api.get(made.id), made);
    same(await api.getOrCreate({ name: "Other", uid }), made);
    await refused(api.create({ name: "Twice", uid }), "conflict", 409);
    const updated = await api.update(uid, { name: "Bea", uid, throttleRate: 7 });
    same([updated.id, updated.name, updated.metadata], [made.id, "Bea", {}]);
    const patched = await api.patch(uid, { name: "Cy", metadata: { a: "b" } });
    same([patched.name, patched.metadata, patched.uid], ["Cy", { a: "b" }, uid]);
    check((await api.patch(uid, { uid: null })).uid == null, "an own id is taken away");
    check((await api.patch(made.id, { uid })).uid === uid, "and given");

    const once = [{ name: "Once", uid: name("app") }, { idempotencyKey: name("key") }];
    same((await api.create(...once)).id, (await api.create(...once)).id);
    await refused(api.create({ name: "Other" }, once[1]), "conflict", 409);
    await api.delete(uid);
    await refused(api.get(uid), "not_found", 404);
    check((await api.create({ name: "Ada", uid })).id !== made.id, "an own id is free again");
  }

  async applicationLists() {
    const made = [];
    for (let n = 0; n < 7; n++) made.push((await this.api.application.get(await this.app())).id);
    // Other clients create applications at the same time: only those of this test are compared.
    const ours = (ids) => ids.filter((id) => made.includes(id));
    same(ours(await this.pages((options) => this.api.application.list(options), 4)), made);
    const newest = await this.api.application.list({ limit: 250, order: "descending" });
    same(ours(newest.data.map((found) => found.id)), [...made].reverse());
    await invalid(this.api.application.list({ limit: 0 }), "query", "limit");
    const filter = { excludeAppsWithNoEndpoints: true };
    const place = ["query", "exclude_apps_with_no_endpoints"];
    await invalid(this.api.application.list(filter), ...place);
  }

  async eventTypes() {
    const api = this.api.eventType;
    const kind = name("order").replaceAll("-", "_");
    const schemas = { 1: { type: "object", required: ["n"] } };
    const made = await api.create({ name: kind, description: "Paid", schemas });
    same([made.name, made.description, made.archived], [kind, "Paid", false]);
    same(made.schemas, schemas);
    same(await api.get(kind), made);
    await refused(api.create({ name: kind, description: "Twice" }), "conflict", 409);
    const patched = await api.patch(kind, { deprecated: true, groupName: "orders" });
    same([patched.description, patched.deprecated, patched.groupName], ["Paid", true, "orders"]);
    const replaced = await api.update(kind, { description: "Other" });
    same([replaced.description, replaced.deprecated], ["Other", false]);
    const listed = async (options) => {
      const page = await api.list({ limit: 250, ...options });
      return page.data.some((found) => found.name === kind);
    };
    check(await listed({}), "listed");
    await api.delete(kind);
    check(!(await listed({})) && (await listed({ includeArchived: true })), "archived");
    await api.delete(kind, { expunge: true });
    await refused(api.get(kind), "not_found", 404);
  }

  async endpoints() {
    const api = this.api.endpoint;
    const [app, uid, url] = [await this.app(), name("ep"), this.receiver.url("/endpoints")];
    const filters = { filterTypes: ["invoice.paid"], channels: ["eu"] };
    const made = await this.endpoint(app, "/endpoints", { uid, ...filters, description: "Main" });
    check(made.id.startsWith("ep_") && made.uid === uid && made.url === url, made);
    same([made.channels, made.disabled, made.description], [["eu"], false, "Main"]);
    same(made.filterTypes, ["invoice.paid"]);
    same(await api.get(app, uid), made);
    const sentBack = await api.update(app, uid, { ...made, description: "Read, then written" });
    same([sentBack.filterTypes, sentBack.channels], [made.filterTypes, made.channels]);
    await refused(api.create(app, { url, uid }), "conflict", 409);
    const replaced = await api.update(app, uid, { url, uid, description: "New", throttleRate: 9 });
    same([replaced.id, replaced.description], [made.id, "New"]);
    check(replaced.channels == null, replaced);
    const patched = await api.patch(app, uid, { channels: ["us"], disabled: true });
    same([patched.channels, patched.disabled, patched.description], [["us"], true, "New"]);

    const ids = [made.id];
    for (let n = 0; n < 6; n++) {
      ids.push((await this.endpoint(app, "/endpoints", { disabled: true })).id);
    }
    same(await this.pages((options) => api.list(app, options)), ids);
    await api.delete(app, uid);
    await refused(api.get(app, uid), "not_found", 404);
    await invalid(api.create(app, { url: "ftp://example.com" }), "body", "url");
    await invalid(api.create(app, { url: "http://169.254.169.254/" }), "body", "url");
    await refused(api.list("app_none"), "not_found", 404);
  }

  async headers() {
    const api = this.api.endpoint;
    const app = await this.app();
    const first = { "x-first": "1", authorization: "secret" };
    const made = await this.endpoint(app, "/headers", { headers: first });
    const found = await api.getHeaders(app, made.id);
    same([found.headers, found.sensitive], [{ "x-first": "1" }, ["authorization"]]);
    await api.updateHeaders(app, made.id, { headers: { "x-second": "2" } });
    same((await api.getHeaders(app, made.id)).headers, { "x-second": "2" });
    const patch = { headers: { "x-third": "3" }, deleteHeaders: ["x-second"] };
    await api.patchHeaders(app, made.id, patch);
    same((await api.getHeaders(app, made.id)).headers, { "x-third": "3" });
    await this.send(app);
    const sent = (await this.receiver.take("/headers")).headers;
    check(sent["x-third"] === "3" && !("x-second" in sent), sent);
  }

  async messages() {
    const api = this.api.message;
    const [app, path, event] = [await this.app(), "/messages", name("event")];
    const made = await this.endpoint(app, path, { filterTypes: ["invoice.*"] });
    const secret = (await this.api.endpoint.getSecret(app, made.id)).key;
    const payload = { text: "grün ✓", n: 1.5, list: [null, true] };
    const sent = await this.send(app, { payload, eventId: event, channels: ["eu"] });
    check(sent.id.startsWith("msg_") && sent.eventId === event, sent);
    same([sent.channels, sent.payload], [["eu"], payload]);
    const request = await this.receiver.take(path);
    same(verified(request, secret), payload);
    check(request.headers["webhook-id"] === sent.id, request.headers);
    const other = { eventType: "order.made", payload: { n: 2 } };
    same((await api.create(app, other, { withContent: false })).payload, {});
    same((await api.get(app, event)).payload, payload);
    same((await api.get(app, sent.id, { withContent: false })).payload, {});
    const taken = await refused(this.send(app, { eventId: event }), "conflict", 409);
    check(taken.detail.includes(sent.id), taken);
    const key = { idempotencyKey: name("key") };
    same((await api.create(app, other, key)).id, (await api.create(app, other, key)).id);
    await refused(api.create(app, { ...other, payload: {} }, key), "conflict", 409);

    const ids = (await api.list(app, { limit: 250 })).data.map((found) => found.id);
    check(ids.length === 3 && ids.at(-1) === sent.id, ids);
    for (let n = 0; n < 4; n++) ids.unshift((await api.create(app, other)).id);
    same(await this.pages((options) => api.list(app, options)), ids);
    const listed = async (options) => (await api.list(app, options)).data.map((one) => one.id);
    same(await listed({ eventTypes: ["invoice.paid", "nothing"] }), [sent.id]);
    same(await listed({ channel: "eu" }), [sent.id]);
    same(await listed({ before: ago(60) }), []);
    same((await listed({ after: ago(60) })).length, 7);

    const raw = '{ "spaced" :  1e2 }';
    await api.create(app, svix.messageInRaw("invoice.raw", raw));
    same((await this.receiver.take(path)).body.toString(), raw);
    const text = svix.messageInRaw("invoice.raw", "<p>", "text/html");
    await invalid(api.create(app, text), "body", "transformationsParams", "headers");
    check((await api.precheck(app, { eventType: "invoice.paid" })).active, "an endpoint is subscribed");
    await api.expungeContent(app, event);
    same((await api.get(app, event)).payload, { expired: true });
    const fresh = name("app");
    await this.send(fresh, { application: { name: "By a message", uid: fresh } });
    check((await this.api.application.get(fresh)).name === "By a message", fresh);
    await invalid(this.send(app, { eventType: "a b" }), "body", "eventType");
    await refused(this.send(name("missing")), "not_found", 404);
  }

  async attempts() {
    const api = this.api.messageAttempt;
    const [app, path] = [await this.app(), "/attempts"];
    const good = await this.endpoint(app, "/attempts/good");
    const bad = await this.endpoint(app, path);
    await this.oneAttemptOnly(app, bad.id);
    this.receiver.answers[path] = 500;
    const sent = await this.send(app);
    await this.untilStats(app, good.id, { success: 1, fail: 0 });
    await this.untilStats(app, bad.id, { success: 0, fail: 1 });
    const all = (await api.listByMsg(app, sent.id)).data;
    same(all.map((found) => found.endpointId).sort(), [good.id, bad.id].sort());
    const [failed] = (await api.listByMsg(app, sent.id, { status: 2 })).data;
    same([failed.endpointId, failed.responseStatusCode, failed.triggerType], [bad.id, 500, 0]);
    same(JSON.parse(failed.response), { answer: "of the receiver" });
    same((await api.get(app, sent.id, failed.id)).id, failed.id);
    const [success] = (await api.listByMsg(app, sent.id, { endpointId: good.id })).data;
    same([success.status, success.url], [0, good.url]);
    const byEndpoint = async (options) => (await api.listByEndpoint(app, bad.id, options)).data;
    const [attempt] = await byEndpoint({ withMsg: true, statusCodeClass: 500 });
    same([attempt.id, attempt.msg.id], [failed.id, sent.id]);
    same(await byEndpoint({ status: 0 }), []);
    same(await byEndpoint({ eventTypes: ["order.made"] }), []);
    const messages = (await api.listAttemptedMessages(app, bad.id, { status: 2 })).data;
    same(messages.map((found) => [found.id, found.status]), [[sent.id, 2]]);
    const targets = (await api.listAttemptedDestinations(app, sent.id)).data;
    same(targets.map((found) => [found.id, found.status]), [[good.id, 0], [bad.id, 2]]);

    this.receiver.answers[path] = 200;
    await api.resend(app, sent.id, bad.id);
    await this.untilStats(app, bad.id, { success: 1, fail: 0 });
    same((await byEndpoint({ status: 0 })).map((found) => found.triggerType), [1]);
    for (let n = 0; n < 2; n++) {
      same((await this.receiver.take(path)).headers["webhook-id"], sent.id);
    }
    for (let n = 0; n < 5; n++) await this.send(app);
    await this.untilStats(app, good.id, { success: 6 });
    const fetchValue = (options) => api.listByEndpoint(app, good.id, options);
    same((await this.pages(fetchValue, 2)).length, 6);
    await api.expungeContent(app, sent.id, failed.id);
    check((await api.get(app, sent.id, failed.id)).response !== failed.response, "gone");
    await refused(api.get(app, sent.id, "atmpt_none"), "not_found", 404);
  }

  async recovery() {
    const api = this.api.endpoint;
    const [app, path, since] = [await this.app(), "/recovery", ago(5)];
    const made = await this.endpoint(app, path);
    await this.oneAttemptOnly(app, made.id);
    this.receiver.answers[path] = 503;
    const ids = [];
    for (let n = 0; n < 5; n++) ids.push((await this.send(app)).id);
    await this.untilStats(app, made.id, { fail: 5 });
    this.receiver.answers[path] = 200;
    const task = await api.recover(app, made.id, { since });
    same(task.task, "endpoint.recover");
    const finished = await this.untilFinished(task.id);
    same([finished.id, finished.data.changed], [task.id, 5]);
    await this.untilStats(app, made.id, { success: 5, fail: 0 });
    const secret = (await api.getSecret(app, made.id)).key;
    const came = [];
    for (let n = 0; n < 10; n++) {
      const request = await this.receiver.take(path);
      verified(request, secret);
      came.push(request.headers["webhook-id"]);
    }
    same(came.sort(), [...ids, ...ids].sort());

    const late = await this.endpoint(app, "/recovery/late");
    const missed = await api.replayMissing(app, late.id, { since, until: new Date() });
    same(missed.task, "endpoint.replay");
    same((await this.untilFinished(missed.id)).data.changed, 5);
    await this.untilStats(app, late.id, { success: 5 });
    const bulk = await api.bulkReplay(app, late.id, { since, status: 0 });
    same((await this.untilFinished(bulk.id)).data.changed, 5);
    for (let n = 0; n < 10; n++) await this.receiver.take("/recovery/late");
    await refused(this.api.backgroundTask.get("qtask_none"), "not_found", 404);
  }

  async examples() {
    const api = this.api.endpoint;
    const [app, path] = [await this.app(), "/examples"];
    const made = await this.endpoint(app, path, { filterTypes: ["something.else"] });
    const secret = (await api.getSecret(app, made.id)).key;
    const kind = name("example").replaceAll("-", "_");
    const schemas = { 1: { type: "object", examples: [{ n: 41 }, { n: 42 }] } };
    await this.api.eventType.create({ name: kind, description: "", schemas });
    for (const [exampleIndex, wanted] of [[undefined, { n: 41 }], [1, { n: 42 }]]) {
      const sent = await api.sendExample(app, made.id, { eventType: kind, exampleIndex });
      same(sent.payload, wanted);
      same(verified(await this.receiver.take(path), secret), wanted);
    }
  }

  async rotation() {
    const api = this.api.endpoint;
    const [app, path, old] = [await this.app(), "/rotation", newKey("whsec_")];
    const made = await this.endpoint(app, path, { secret: old });
    const current = async () => (await api.getSecret(app, made.id)).key;
    same(await current(), old);
    await this.send(app);
    verified(await this.receiver.take(path), old);
    await api.rotateSecret(app, made.id, {});
    const fresh = await current();
    check(fresh !== old, "a new key");
    await this.send(app);
    const both = await this.receiver.take(path);
    verified(both, old);
    verified(both, fresh);

    const rotate = { key: newKey("whsk_"), gracePeriodSeconds: 3600 };
    await api.rotateSecret(app, made.id, rotate);
    await this.send(app);
    const signed = await this.receiver.take(path);
    check(verifiesAsymmetric(signed, await current()), signed.headers);
    check(!verifiesAsymmetric({ ...signed, body: Buffer.from("{}") }, await current()), "body");
    verified(signed, old);
    verified(signed, fresh);
    await invalid(api.rotateSecret(app, made.id, { key: "whsec_short" }), "body", "key");
    await this.rotationEnds(app);
  }

  async rotationEnds(app) {
    const api = this.api.endpoint;
    const path = "/rotation/ends";
    const made = await this.endpoint(app, path, { filterTypes: ["ends"] });
    const current = async () => (await api.getSecret(app, made.id)).key;
    const old = await current();
    await api.rotateSecret(app, made.id, { gracePeriodSeconds: 1 });
    const fresh = await current();
    await until("the end of the grace", async () => {
      await this.send(app, { eventType: "ends" });
      const request = await this.receiver.take(path);
      verified(request, fresh);
      return !verifies(request, old);
    });
    await api.rotateSecret(app, made.id, { gracePeriodSeconds: 0 });
    await this.send(app, { eventType: "ends" });
    const request = await this.receiver.take(path);
    verified(request, await current());
    check(!verifies(request, fresh), "without grace an old key ends at once");
  }

  async operational() {
    const api = this.api.operationalWebhook.endpoint;
    const path = `/${name("operational")}`;
    const url = this.receiver.url(path);
    const made = await api.create({ url, uid: name("op"), description: "Pager" });
    same([made.url, made.description], [url, "Pager"]);
    same(await api.get(made.uid), made);
    check((await api.list()).data.some((found) => found.id === made.id), "listed");
    await api.updateHeaders(made.id, { headers: { "x-pager": "1" } });
    same((await api.getHeaders(made.id)).headers, { "x-pager": "1" });
    await api.rotateSecret(made.id, {});
    const secret = (await api.getSecret(made.id)).key;

    const app = await this.app();
    const gone = await this.endpoint(app, "/operational/gone");
    this.receiver.answers["/operational/gone"] = 410;
    const sent = await this.send(app);
    const operationalEvent = async (kind) => {
      const ours = ({ body }) => {
        const { type, data } = JSON.parse(body);
        return type === kind && data.endpointId === gone.id;
      };
      return verified(await this.receiver.take(path, ours), secret).data;
    };
    await operationalEvent("endpoint.disabled");
    same((await operationalEvent("message.attempt.exhausted")).msgId, sent.id);
    check((await this.api.endpoint.get(app, gone.id)).disabled, "410 disables");
    const { resend } = this.api.messageAttempt;
    const again = () => resend.call(this.api.messageAttempt, app, sent.id, gone.id);
    await refused(again(), "conflict", 409);
    await this.api.endpoint.patch(app, gone.id, { disabled: false });
    this.receiver.answers["/operational/gone"] = 204;
    await again();
    await this.untilStats(app, gone.id, { success: 1 });
    check((await api.update(made.id, { url, uid: made.uid, disabled: true })).disabled, "off");
    await api.delete(made.id);
    await refused(api.get(made.id), "not_found", 404);
  }

  async access() {
    await this.api.health.get();
    const stranger = new svix.Svix("nonsense", { serverUrl: this.url });
    await refused(stranger.application.list(), "unauthorized", 401);
  }
}

/** The published test vectors of the signature. */
function vectors() {
  for (const [key, message, seconds, body, signature] of [
    [
      "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
      "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
      1649367553,
      '{"email":"test@example.com","username":"test_user"}',
      "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
    ],
    [
      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
      "msg_p5jXN8AQM9LWM0D4loKWxJek",
      1614265330,
      '{"test": 2432232314}',
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ],
  ]) {
    const moment = new Date(seconds * 1000);
    for (const library of [standardwebhooks, svix]) {
      same(new library.Webhook(key).sign(message, moment, body), signature);
    }
  }
}

async function main(url, apiKey) {
  vectors();
  const receiver = await new Receiver().start();
  const suite = new Suite(url, apiKey, receiver);
  const parts = [
    "access", "applications", "applicationLists", "eventTypes", "endpoints", "headers", "messages",
    "attempts", "recovery", "examples", "rotation", "operational",
  ];
  for (const part of parts) {
    const [start, before] = [Date.now(), checks];
    await suite[part]();
    console.log(`${part}: ${checks - before} checks in ${Date.now() - start} ms`);
  }
  console.log(`svix ${version} from npm: all ${checks} checks hold`);
}

main(...process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
