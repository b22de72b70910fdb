#!/bin/sh
# Starts an order that needs an approval, approves it, and waits for its result. The worker
# order_worker must run on the server's store.
#
# Usage: workflow.sh [URL], with the API key in WAKELINE_API_KEY if the server needs one.
set -eu
url=${1:-http://127.0.0.1:7632}/api/v1

call() {
    path=$1
    shift
    curl --fail-with-body --silent --show-error "$url/$path" \
        --header 'content-type: application/json' \
        --header "authorization: Bearer ${WAKELINE_API_KEY:-}" "$@"
}

# The webhook event that the order sends needs an application for its customer.
call 'app?get_if_exists=true' --data '{"name": "Ada Ltd", "uid": "ada"}'
echo

# A second start with the same id has no effect.
order=order-$(date +%s)-$$
call orchestrations --data '{"name": "order", "instance": "'"$order"'",
    "input": {"id": 7, "customer": "ada", "total": 4200}}'
echo

# The orchestration waits for this event. The worker may be restarted while it waits.
call "orchestrations/$order/events/approved" --data true
echo
call "orchestrations/$order/wait?timeout=30000"
echo

# Read the history of the instance, and pop the message that it pushed.
call "orchestrations/$order/history"
echo
call 'pop/queue/shipments?wait=true&timeout=30000&autoAck=true'
echo
