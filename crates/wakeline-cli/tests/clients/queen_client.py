"""Tests a running server with the unchanged published Queen client (PyPI: queen-mq).

Usage: python queen_client.py URL. Exits 0 and prints the number of checks if all hold.
Works with the versions 0.15 and 2.x of the client.
"""

import asyncio
import sys
import uuid

from queen import Queen

CHECKS = 0


def check(condition, what):
    global CHECKS
    CHECKS += 1
    if not condition:
        raise AssertionError(what)


def name(base):
    return f"{base}-{uuid.uuid4().hex[:8]}"


async def configure_push_pop_ack(client):
    queue = name("queen")
    created = await client.queue(queue).config({"lease_time": 30, "retry_limit": 1}).create()
    check(created["configured"] is True, created)
    check(created["options"]["leaseTime"] == 30, created)
    pushed = await client.queue(queue).push(
        [{"data": {"n": n}, "transactionId": f"t{n}"} for n in range(3)]
    )
    check([item["status"] for item in pushed] == ["queued"] * 3, pushed)
    again = await client.queue(queue).push([{"data": {}, "transactionId": "t0"}])
    check(again[0]["status"] == "duplicate", again)
    check(again[0]["message_id"] == pushed[0]["message_id"], again)

    messages = await client.queue(queue).batch(10).pop()
    check([message["data"]["n"] for message in messages] == [0, 1, 2], messages)
    renewed = await client.renew(messages[0])
    check(renewed["success"] is True, renewed)
    result = await client.ack(messages[2])
    check(result["success"] is True, result)
    result = await client.ack(messages[:2])
    check(result["success"] is True, result)
    stale = await client.ack(messages[0])
    check(stale["success"] is False, stale)
    check(await client.queue(queue).wait(False).pop() == [], "drained")
    gone = await client.queue(queue).delete()
    check(gone["existed"] is True, gone)


async def failed_messages_become_dead_letters(client):
    queue = name("queen")
    await client.queue(queue).config({"retry_limit": 1}).create()
    await client.queue(queue).push([{"data": "bad", "transactionId": "x"}])
    for _ in range(2):
        messages = await client.queue(queue).wait(True).pop()
        check(len(messages) == 1, messages)
        await client.ack(messages[0], False)
    letters = await client.queue(queue).dlq().limit(5).get()
    check([letter["data"] for letter in letters["messages"]] == ["bad"], letters)


async def a_consumer_waits_and_handles(client):
    queue, seen = name("queen"), []

    async def handler(message):
        seen.append(message["data"]["n"])

    consuming = asyncio.ensure_future(
        client.queue(queue).group("workers").batch(1).limit(3).each().consume(handler)._execute()
    )
    await asyncio.sleep(0.2)
    await client.queue(queue).push([{"data": {"n": n}} for n in range(3)])
    await asyncio.wait_for(consuming, 20)
    check(seen == [0, 1, 2], seen)
    check(await client.queue(queue).group("workers").wait(False).pop() == [], "acknowledged by the consumer")
    check(len(await client.queue(queue).group("others").batch(9).pop()) == 3, "another group")


async def partitions_and_subscriptions(client):
    queue = name("queen")
    for partition in ["a", "b", "c"]:
        await client.queue(queue).partition(partition).push([{"data": partition}])
    messages = await client.queue(queue).batch(10).partitions(3).pop()
    check(sorted(message["data"] for message in messages) == ["a", "b", "c"], messages)
    check(len({message["leaseId"] for message in messages}) == 1, messages)
    await client.ack(messages)
    fresh = client.queue(queue).group("fresh").subscription_mode("new")
    check(await fresh.wait(False).pop() == [], "a new group that begins at new messages")
    await client.queue(queue).partition("a").push([{"data": "later"}])
    messages = await client.queue(queue).group("fresh").wait(True).pop()
    check([message["data"] for message in messages] == ["later"], messages)
    await client.delete_consumer_group("fresh")


async def transactions(client):
    source, target = name("queen"), name("queen")
    await client.queue(source).push([{"data": 1, "transactionId": "s"}])
    messages = await client.queue(source).pop()
    result = await client.transaction().queue(target).push([{"data": 2}]).ack(messages[0]).commit()
    check(result["success"] is True, result)
    check(await client.queue(source).wait(False).pop() == [], "acknowledged in the transaction")
    check([m["data"] for m in await client.queue(target).pop()] == [2], "pushed in the transaction")


async def the_admin_api_returns_correct_counts(client):
    if not hasattr(client, "admin"):
        return
    admin, namespace = client.admin, name("adm")
    queue = f"{namespace}.work"
    await client.queue(queue).push([{"data": n, "transactionId": f"t{n}"} for n in range(3)])
    messages = await client.queue(queue).batch(1).pop()
    await client.ack(messages[0])

    detail = await admin.get_queue(queue)
    totals = detail["totals"]
    check((totals["total"], totals["pending"], totals["completed"]) == (3, 2, 1), detail)
    check(detail["partitions"][0]["stats"]["pending"] == 2, detail)
    listed = await admin.list_queues(limit=10000)
    ours = [one for one in listed["queues"] if one["name"] == queue]
    check(ours[0]["messages"] == {"total": 3, "pending": 2, "processing": 0}, ours)
    if hasattr(admin, "get_queue_depth"):
        depth = await admin.get_queue_depth(queue)
        check((depth["pending"], depth["effectivePending"]) == (2, 2), depth)
        check(depth["partitions"] == [{"partition": "Default", "pending": 2}], depth)
        new = await admin.get_queue_depth(queue, "scaled-from-zero")
        check(new["pending"] == 3, new)
    spaces = await admin.get_namespaces()
    ours = [one for one in spaces["namespaces"] if one["namespace"] == namespace]
    check((ours[0]["queues"], ours[0]["messages"]["pending"]) == (1, 2), ours)
    tasks = await admin.get_tasks()
    check("work" in [one["task"] for one in tasks["tasks"]], tasks)
    stats = await admin.get_queue_stats(limit=10000, offset=0)
    check(queue in [one["name"] for one in stats["queues"]], stats)
    detail = await admin.get_queue_detail(queue)
    check(detail["queue"]["config"]["leaseTime"] == 300, detail)
    check(detail["partitions"][0]["cursor"]["totalConsumed"] == 1, detail)
    groups = await admin.list_consumer_groups()
    ours = [one for one in groups if one["queueName"] == queue]
    check((ours[0]["totalLag"], ours[0]["maxTimeLag"] >= 0) == (2, True), ours)

    refreshed = await admin.refresh_consumer_stats()
    check(refreshed["queue"]["queuesUpdated"] >= 1, refreshed)
    overview = await admin.get_overview()
    check(overview["queues"] >= 1 and overview["messages"]["pending"] >= 2, overview)
    check(overview["throughput"]["ingestedPerSecond"] > 0, overview)
    status = await admin.get_status()
    check(sum(point["ingested"] for point in status["throughput"]) >= 3, status)
    analytics = await admin.get_analytics(interval="minute", queue=queue)
    check(sum(point["messages"] for point in analytics["dataPoints"]) == 3, analytics)
    system = await admin.get_system_metrics()
    check(system["replicaCount"] >= 1, system)
    workers = await admin.get_worker_metrics()
    check(sum(one["pushMessages"] for one in workers["workers"]) >= 3, workers)


async def main(url):
    client = Queen(url)
    try:
        for scenario in [
            configure_push_pop_ack,
            failed_messages_become_dead_letters,
            a_consumer_waits_and_handles,
            partitions_and_subscriptions,
            transactions,
            the_admin_api_returns_correct_counts,
        ]:
            await asyncio.wait_for(scenario(client), 60)
    finally:
        await client.close()
    print(f"{CHECKS} checks hold")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
