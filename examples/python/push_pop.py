"""A producer and a consumer with the published Queen client (PyPI: queen-mq).

Usage: python push_pop.py [URL], with the API key in WAKELINE_API_KEY if the server needs one.
"""

import asyncio
import os
import sys
import uuid

from queen import Queen

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7632"
ORDERS = 5


async def produce(client, queue):
    """Pushes orders. Those of one customer are delivered in order."""
    for number in range(ORDERS):
        await client.queue(queue).partition(f"customer-{number % 2}").push(
            [{"data": {"order": number}, "transactionId": f"order-{number}"}]
        )


async def consume(client, queue, group):
    """Handles all orders. Each consumer group receives every message once."""
    orders = []
    while len(orders) < ORDERS:
        # The server holds the request until there is a message.
        messages = await client.queue(queue).group(group).batch(10).wait(True).pop()
        for message in messages:
            orders.append(message["data"]["order"])
        # A message that is not acknowledged within its lease is delivered again.
        await client.ack(messages, True, {"group": group})
    print(f"{group} received {len(orders)} orders: {orders}")


async def main():
    async with Queen(url=URL, bearer_token=os.environ.get("WAKELINE_API_KEY")) as client:
        queue = f"orders-{uuid.uuid4().hex[:8]}"
        await client.queue(queue).config({"lease_time": 30, "retry_limit": 3}).create()
        await asyncio.gather(
            consume(client, queue, "billing"),
            consume(client, queue, "shipping"),
            produce(client, queue),
        )
        await client.queue(queue).delete()


asyncio.run(main())
