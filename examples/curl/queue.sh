#!/bin/sh
# A producer pushes two messages; a consumer waits for them, completes one and lets the other fail.
#
# Usage: queue.sh [URL], with the API key in WAKELINE_API_KEY if the server needs one.
set -eu
url=${1:-http://127.0.0.1:7632}/api/v1
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

call() {
    path=$1
    shift
    curl --fail-with-body --silent --show-error "$url/$path" \
        --header 'content-type: application/json' \
        --header "authorization: Bearer ${WAKELINE_API_KEY:-}" "$@"
}

# The value of a field of the first message in a response.
field() { sed 's/.*"messages":\[{\(.*\)/\1/; s/.*"'"$1"'":"\([^"]*\)".*/\1/' "$2"; }

# A failed message is delivered again after 10 seconds (then 20 and 40), at most three times. The
# fourth failure makes it a dead letter.
call configure --data '{"queue": "emails", "options": {"retryDelay": 10000, "retryLimit": 3}}'
echo

# The consumer waits up to 30 seconds. Nothing polls: the server answers when a message is there.
call 'pop/queue/emails?wait=true&timeout=30000' --output "$dir/first.json" &

# Messages of one partition are delivered in order. Repeating a push with the same transactionId
# stores nothing new, so a push may be repeated when its response was lost.
call push --data '{"items": [
    {"queue": "emails", "partition": "ada", "transactionId": "welcome-ada", "payload": {"to": "ada@example.org"}},
    {"queue": "emails", "partition": "bob", "transactionId": "welcome-bob", "payload": {"to": "bob@example.org"}}]}'
echo
wait
cat "$dir/first.json"
echo

# The leaseId proves that this consumer still has the lease of the message.
call ack --data '{"status": "completed",
    "transactionId": "'"$(field transactionId "$dir/first.json")"'",
    "partitionId": "'"$(field partitionId "$dir/first.json")"'",
    "leaseId": "'"$(field leaseId "$dir/first.json")"'"}'
echo

# The other message fails, and is delivered again after the retry delay.
call 'pop/queue/emails?wait=true&timeout=30000' --output "$dir/second.json"
call ack --data '{"status": "failed", "error": "the mail server is down",
    "transactionId": "'"$(field transactionId "$dir/second.json")"'",
    "partitionId": "'"$(field partitionId "$dir/second.json")"'",
    "leaseId": "'"$(field leaseId "$dir/second.json")"'"}'
echo

# Print the counts of the queue.
call resources/queues/emails
echo

# Deletes the queue with everything in it, so that the example can be run again.
call resources/queues/emails --request DELETE
echo
