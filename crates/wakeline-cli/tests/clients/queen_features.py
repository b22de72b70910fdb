"""Tests every feature of the published Queen client (PyPI: queen-mq) against a running server.

Usage: python queen_features.py URL. Exits 0 and prints the number of checks if all hold. Works with the versions
0.15 and 2.x of the client; features of only one version are checked with that version. The server must have
encryption keys.
"""

import asyncio
import sys
import time
from datetime import datetime, timedelta, timezone

import queen_client
from queen import Queen
from queen_client import check, name


async def gather(client, queue, count, **how):
    """Pops until this many messages were received."""
    messages = []
    while len(messages) < count:
        builder = client.queue(queue).batch(10).partitions(10).wait(True).timeout_millis(20000)
        if "group" in how:
            builder = builder.group(how["group"])
        popped = await builder.pop()
        check(popped, f"{len(messages)} of {count} messages of {queue}")
        messages += popped
    return messages


async def every_option_is_stored_and_returned(client):
    options = {
        "lease_time": 31,
        "retry_limit": 4,
        "priority": 7,
        "delayed_processing": 1,
        "window_buffer": 2,
        "max_size": 1000,
        "retention_seconds": 86400,
        "completed_retention_seconds": 3600,
        "encryption_enabled": True,
        "ttl": 7200,
        "retry_delay": 250,
        "max_wait_time_seconds": 600,
        "dead_letter_queue": True,
        "dlq_after_max_retries": True,
    }
    created = await client.queue(name("options")).namespace("shop").task("pay").config(options).create()
    returned = created["options"]
    for key, value in options.items():
        head, *rest = key.split("_")
        camel = head + "".join(word.capitalize() for word in rest)
        check(returned.get(camel) == value, f"{camel}: {returned.get(camel)} instead of {value}")
    check((created["namespace"], created["task"]) == ("shop", "pay"), created)


async def delayed_messages_are_not_early(client):
    queue = name("delayed")
    await client.queue(queue).config({"delayed_processing": 1}).create()
    began = time.monotonic()
    await client.queue(queue).push([{"data": 1}])
    check(await client.queue(queue).wait(False).pop() == [], "the message is delayed")
    await gather(client, queue, 1)
    check(time.monotonic() - began >= 0.9, "one second later")


async def a_full_queue_refuses(client):
    queue = name("full")
    await client.queue(queue).config({"max_size": 2}).create()
    await client.queue(queue).push([{"data": n} for n in range(2)])
    try:
        async with asyncio.timeout(3):
            await client.queue(queue).push([{"data": "too many"}])
        check(False, "a full queue accepted a message")
    except AssertionError:
        raise
    except Exception as error:
        # 0.15 raises the error; 2.x repeats the push until it is cancelled.
        check(isinstance(error, TimeoutError) or "is full" in str(error), repr(error))
    check(len(await gather(client, queue, 2)) == 2, "the stored messages are still there")


async def expired_messages_are_gone(client):
    queue = name("ttl")
    await client.queue(queue).config({"ttl": 1}).create()
    await client.queue(queue).push([{"data": "old"}])
    await asyncio.sleep(1.3)
    await client.queue(queue).push([{"data": "new"}])
    check([m["data"] for m in await gather(client, queue, 1)] == ["new"], "ttl")


async def encrypted_queues_look_the_same(client):
    queue = name("encrypted")
    await client.queue(queue).config({"encryption_enabled": True}).create()
    await client.queue(queue).push([{"data": {"card": "4242"}, "transactionId": "t"}])
    message = (await gather(client, queue, 1))[0]
    check(message["data"] == {"card": "4242"}, message)
    one = await client.admin.get_message(message["partitionId"], "t")
    check((one["isEncrypted"], one["payload"]) == (True, {"card": "4242"}), one)


async def namespaces_tasks_and_priorities(client):
    space, low, high = name("space"), name("low"), name("high")
    await client.queue(low).namespace(space).task("mail").config({"priority": 0}).create()
    await client.queue(high).namespace(space).task("pay").config({"priority": 9}).create()
    await client.queue(low).push([{"data": "low"}])
    await client.queue(high).push([{"data": "high"}])
    first = await client.queue().namespace(space).batch(1).wait(False).pop()
    check([m["data"] for m in first] == ["high"], first)
    second = await client.queue().namespace(space).task("mail").batch(1).wait(False).pop()
    check([m["data"] for m in second] == ["low"], second)


async def buffered_pushes_arrive(client):
    queue = name("buffered")
    for n in range(5):
        await client.queue(queue).buffer({"message_count": 100, "time_millis": 60000}).push([{"data": n}])
    await client.flush_all_buffers()
    check([m["data"] for m in await gather(client, queue, 5)] == list(range(5)), "in order")


async def groups_are_listed_moved_and_deleted(client):
    queue, group, admin = name("groups"), name("group"), client.admin
    await client.queue(queue).push([{"data": n, "transactionId": f"t{n}"} for n in range(4)])
    for message in await gather(client, queue, 4, group=group):
        check((await client.ack(message, True, {"group": group}))["success"] is True, message)
    listed = [g for g in await admin.list_consumer_groups() if g["name"] == group]
    check([g["totalLag"] for g in listed] == [0], listed)
    described = await admin.get_consumer_group(group)
    check(queue in str(described), described)
    # The group is moved back before the first push, and then to the end again.
    hour = timedelta(hours=1)
    moved = await admin.seek_consumer_group(group, queue, {"timestamp": (datetime.now(timezone.utc) - hour).isoformat()})
    check((moved["success"], moved["partitionsUpdated"]) == (True, 1), moved)
    check(len(await client.queue(queue).group(group).batch(10).wait(False).pop()) == 4, "from the beginning")
    moved = await admin.seek_consumer_group(group, queue, {"toEnd": True})
    check(moved["seekToEnd"] is True, moved)
    check(await client.queue(queue).group(group).wait(False).pop() == [], "at the end")
    check(isinstance(await admin.get_lagging_consumers(3600), list), "a list of lagging groups")
    changed = await client.update_consumer_group_timestamp(group, (datetime.now(timezone.utc) - hour).isoformat())
    check(changed["success"] is True, changed)
    gone = await admin.delete_consumer_group_for_queue(group, queue)
    check(gone["success"] is True, gone)
    check([g for g in await admin.list_consumer_groups() if g["name"] == group] == [], "deleted")


async def messages_are_browsed_and_moved(client):
    queue, admin = name("messages"), client.admin
    await client.queue(queue).config({"retry_limit": 0}).create()
    check(await client.queue(queue).wait(False).pop() == [], "the group exists")
    await client.queue(queue).push([{"data": n, "transactionId": f"t{n}"} for n in range(4)])
    listed = (await admin.list_messages(queue=queue))["messages"]
    check(sorted(m["transactionId"] for m in listed) == ["t0", "t1", "t2", "t3"], listed)
    check({m["status"] for m in listed} == {"pending"}, listed)
    partition = listed[0]["partitionId"]
    one = await admin.get_message(partition, "t1")
    check((one["payload"], one["queue"], one["status"]) == (1, queue, "pending"), one)
    if hasattr(client, "timer"):
        # 2.x does not send the other requests.
        return
    moved = await admin.move_message_to_dlq(partition, "t1")
    check(moved["success"] is True, moved)
    letters = await client.queue(queue).dlq().limit(1).offset(0).get()
    check(([m["transactionId"] for m in letters["messages"]], letters["total"]) == (["t1"], 1), letters)
    check((await client.queue(queue).dlq().offset(1).get())["messages"] == [], "only one dead letter")
    retried = await admin.retry_message(partition, "t1")
    check(retried["success"] is True, retried)
    check((await client.queue(queue).dlq().get())["total"] == 0, "no longer dead")
    messages = await gather(client, queue, 4)
    check(sorted(m["data"] for m in messages) == [0, 1, 2, 3], messages)


async def a_deleted_message_is_never_delivered(client):
    queue, admin = name("deleted"), client.admin
    await client.queue(queue).push([{"data": n, "transactionId": f"t{n}"} for n in range(4)])
    partition = (await admin.list_messages(queue=queue))["messages"][0]["partitionId"]
    held = (await client.queue(queue).batch(1).wait(False).pop())[0]
    check(held["data"] == 0, held)
    for n in [0, 2]:
        gone = await admin.delete_message(partition, f"t{n}")
        check((gone["success"], gone["transactionId"]) == (True, f"t{n}"), gone)
    try:
        again = await admin.delete_message(partition, "t2")
        check(not (again or {}).get("success"), again)
    except AssertionError:
        raise
    except Exception as error:
        check("not found" in str(error).lower(), repr(error))
    check([m["data"] for m in await gather(client, queue, 2)] == [1, 3], "for a group that continues")
    later = await gather(client, queue, 2, group=name("later"))
    check([m["data"] for m in later] == [1, 3], "for a group that begins")


async def queues_and_partitions_are_cleared(client):
    if hasattr(client, "timer"):
        # 2.x does not send these requests.
        return
    queue = name("cleared")
    for partition in ["a", "b"]:
        await client.queue(queue).partition(partition).push([{"data": partition}])
    await client.admin.clear_queue(queue, "a")
    check([m["data"] for m in await gather(client, queue, 1)] == ["b"], "one partition only")
    await client.queue(queue).partition("b").push([{"data": "c"}])
    await client.admin.clear_queue(queue)
    check(await client.queue(queue).group("other").wait(False).pop() == [], "the whole queue")


async def consumers_record_traces(client):
    queue, trace, results = name("traced"), name("trace"), []

    async def handler(message):
        results.append(await message["trace"]({"traceName": trace, "eventType": "info", "data": {"step": 1}}))
        results.append(message)

    await client.queue(queue).push([{"data": 1, "transactionId": "t"}])
    consuming = client.queue(queue).batch(1).limit(1).each().consume(handler)._execute()
    await asyncio.wait_for(consuming, 20)
    check(results[0]["success"] is True, results[0])
    partition, admin = results[1]["partitionId"], client.admin
    found = (await admin.get_traces_for_message(partition, "t"))["traces"]
    check([(t["event_type"], t["data"], t["trace_names"]) for t in found] == [("info", {"step": 1}, [trace])], found)
    found = await admin.get_traces_by_name(trace, limit=10)
    check([(t["queue_name"], t["transaction_id"]) for t in found["traces"]] == [(queue, "t")], found)
    names = (await admin.get_trace_names(limit=1000))["trace_names"]
    check([t["trace_count"] for t in names if t["trace_name"] == trace] == [1], names)


async def transactions_are_all_or_nothing(client):
    source, one, two = name("source"), name("one"), name("two")
    await client.queue(source).push([{"data": n, "transactionId": f"s{n}"} for n in range(2)])
    messages = await gather(client, source, 2)
    await client.queue(one).push([{"data": "first", "transactionId": "x"}])
    transaction = client.transaction().ack(messages[0])
    if hasattr(client, "timer"):
        # 0.15 sends no transaction ids here, so that the message cannot be a duplicate.
        transaction = transaction.queue(one).push([{"data": "again", "transactionId": "x"}])
    result = await transaction.queue(two).push([{"data": "second"}]).commit()
    check(result["success"] is True, result)
    check([m["data"] for m in await gather(client, one, 1)] == ["first"], "a duplicate is not stored twice")
    check([m["data"] for m in await gather(client, two, 1)] == ["second"], "over several queues")
    # The lease of the first message is settled, so that the second transaction has no effect.
    try:
        refused = await client.transaction().ack(messages[0]).queue(two).push([{"data": "never"}]).commit()
        check(not refused["success"], refused)
    except AssertionError:
        raise
    except Exception as error:
        check("ACK operation failed" in str(error), repr(error))
    check(await client.queue(two).group("look").batch(9).partitions(1).wait(False).pop() != [], "it is stored")
    check(len(await client.queue(two).group("count").batch(9).wait(False).pop()) == 1, "no other message is stored")


async def timers_are_set_and_cancelled(client):
    queue = name("timers")
    set_ = await client.timer(queue).key("k").payload({"n": 1}).after_ms(3_600_000).schedule()
    check((bool(set_), set_["status"]) == (True, "scheduled"), set_)
    again = await client.timer(queue).key("k").payload({"n": 2}).after_ms(300).schedule()
    check(again["status"] == "rescheduled", again)
    messages = await gather(client, queue, 1)
    check([m["data"] for m in messages] == [{"n": 2}], "the last payload counts")
    await client.ack(messages)
    await client.timer(queue).key("gone").payload(3).after_ms(3_600_000).schedule()
    peeked = await client.timers.peek(queue, "gone")
    check(peeked, "the timer is pending")
    rows = await client.timers.list_all(queue)
    check([row["timerKey"] for row in rows] == ["gone"], rows)
    check((await client.timer(queue).key("gone").cancel())["status"] == "cancelled", "cancelled")
    check((await client.timer(queue).key("gone").cancel())["status"] == "absent", "cancelled once")
    source = name("source")
    await client.queue(source).push([{"data": 1}])
    message = (await gather(client, source, 1))[0]
    transaction = client.transaction().ack(message)
    transaction = transaction.timer(queue).key("attached").payload("late").after_ms(200).schedule()
    result = await transaction.commit()
    check(result["success"] is True, result)
    check([m["data"] for m in await gather(client, queue, 1)] == ["late"], "a timer of a transaction fires")


async def maintenance_holds_messages(client):
    queue, admin = name("held"), client.admin
    await client.queue(queue).push([{"data": "before"}])
    await gather(client, queue, 1)
    on = await admin.set_maintenance_mode(True)
    try:
        check(on["maintenanceMode"] is True, on)
        pushed = await client.queue(queue).partition("p").push([{"data": "meanwhile"}])
        check(pushed[0]["status"] == "buffered", pushed)
        returned = await admin.get_maintenance_mode()
        check(returned["bufferedMessages"] >= 1, returned)
        check(await client.queue(queue).partition("p").wait(False).pop() == [], "the message is held")
    finally:
        off = await admin.set_maintenance_mode(False)
    check(off["maintenanceMode"] is False, off)
    check([m["data"] for m in await gather(client, queue, 1)] == ["meanwhile"], "delivered afterwards")
    paused = await admin.set_pop_maintenance_mode(True)
    try:
        check(paused["popMaintenanceMode"] is True, paused)
        await client.queue(queue).partition("p").push([{"data": "later"}])
        check(await client.queue(queue).partition("p").wait(False).pop() == [], "paused")
    finally:
        await admin.set_pop_maintenance_mode(False)
    check((await admin.get_pop_maintenance_mode())["popMaintenanceMode"] is False, "the maintenance has ended")


SCENARIOS = [
    every_option_is_stored_and_returned,
    delayed_messages_are_not_early,
    a_full_queue_refuses,
    expired_messages_are_gone,
    encrypted_queues_look_the_same,
    namespaces_tasks_and_priorities,
    buffered_pushes_arrive,
    groups_are_listed_moved_and_deleted,
    messages_are_browsed_and_moved,
    a_deleted_message_is_never_delivered,
    queues_and_partitions_are_cleared,
    consumers_record_traces,
    transactions_are_all_or_nothing,
]


async def main(url):
    client = Queen(url)
    scenarios = list(SCENARIOS)
    if hasattr(client, "timer"):
        scenarios.append(timers_are_set_and_cancelled)
    if hasattr(client.admin, "set_maintenance_mode"):
        scenarios.append(maintenance_holds_messages)
    failed = []
    for scenario in scenarios:
        try:
            await asyncio.wait_for(scenario(client), 60)
        except Exception as error:
            failed.append(f"{scenario.__name__}: {error!r}")
    await client.close()
    if failed:
        sys.exit("\n".join(failed))
    print(f"{queen_client.CHECKS} checks hold")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
