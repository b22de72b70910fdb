#!/bin/sh
# Creates an application with two endpoints, sends an event, and reads its deliveries and attempts.
#
# Usage: webhooks.sh [URL], with the API key in WAKELINE_API_KEY if the server needs one.
set -eu
url=${1:-http://127.0.0.1:7632}/api/v1

call() {
    path=$1
    shift
    curl --fail-with-body --silent --show-error "$url/$path" \
        --header 'content-type: application/json' \
        --header "authorization: Bearer ${WAKELINE_API_KEY:-}" "$@"
}

# An application is one of your customers.
call 'app?get_if_exists=true' --data '{"name": "Ada Ltd", "uid": "ada"}'
echo

# An endpoint receives requests with a signature. A failed request is repeated for three days.
call app/ada/endpoint/receiver --request PUT --data '{
    "url": "https://ada.example/hooks", "eventTypes": ["invoice.*"]}'
echo

# Alternatively, the customer fetches its events: an endpoint with "pull" needs no URL.
call app/ada/endpoint/mine --request PUT --data '{"delivery": {"pull": true}}'
echo

# The response 202 means that the message and its deliveries are stored. The eventId makes it safe to
# repeat the request.
invoice=invoice-$(date +%s)-$$
call app/ada/msg --data '{
    "eventType": "invoice.paid", "eventId": "'"$invoice"'", "payload": {"invoice": 7}}'
echo

# Read the state of each delivery and every attempt, and fetch the event.
call "app/ada/msg/$invoice/delivery"
echo
call "app/ada/attempt/msg/$invoice"
echo
call 'app/ada/endpoint/mine/pull?wait=true&timeout=30000'
echo
